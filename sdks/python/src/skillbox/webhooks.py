"""Verifies that a webhook was sent by your Skillbox server."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from .errors import WebhookError


@dataclass(frozen=True)
class Webhook:
    """A verified webhook. `id` is the same for every delivery attempt, so receivers can use it to drop duplicates."""

    id: str
    type: str
    timestamp: str
    data: dict[str, Any]


def verify(
    secret: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    tolerance_s: float = 300.0,
    now: Optional[float] = None,
) -> Webhook:
    """Verifies signature and age of a webhook and decodes it.

    `secret` is the result of `Client.get_webhook_secret`; `body` must be the received bytes, unchanged.

    Raises:
        WebhookError: The signature is invalid, or older than `tolerance_s`. Respond with 400 and ignore the webhook.
    """
    given = {name.lower(): value for name, value in headers.items()}
    message_id, sent_at = given.get("webhook-id", ""), given.get("webhook-timestamp", "")
    signed = b".".join([message_id.encode(), sent_at.encode(), body])
    expected = hmac.new(_key(secret), signed, hashlib.sha256).digest()
    if not any(_matches(part, expected) for part in given.get("webhook-signature", "").split()):
        raise WebhookError("skillbox: the webhook is not signed with this secret")
    age = (time.time() if now is None else now) - int(sent_at)
    if abs(age) > tolerance_s:
        raise WebhookError("skillbox: the webhook was signed too long ago")
    document = json.loads(body)
    return Webhook(message_id, document["type"], document["timestamp"], document["data"])


def _key(secret: str) -> bytes:
    try:
        return base64.b64decode(secret[len("whsec_") :] if secret.startswith("whsec_") else secret, validate=True)
    except binascii.Error as cause:
        raise ValueError("the secret of webhooks looks like whsec_…") from cause


def _matches(part: str, expected: bytes) -> bool:
    version, _, text = part.partition(",")
    try:
        return version == "v1" and hmac.compare_digest(base64.b64decode(text, validate=True), expected)
    except binascii.Error:
        return False
