"""Regenerates the settings in the chart's schema, and deploy/k8s. The tests compare them."""

import sys

import settings
from support import K8S

sys.path.insert(0, str(K8S))
import generate  # noqa: E402

settings.SCHEMA.write_text(settings.schema_with(settings.allowed()))
generate.write(K8S)
