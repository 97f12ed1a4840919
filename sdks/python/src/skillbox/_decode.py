"""JSON to dataclasses, tolerant of what a newer or older server says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any, TypeVar

M = TypeVar("M", bound="Model")


class Model:
    """A document of the API. `raw` is all of it, with keys that this version does not know."""

    raw: dict[str, Any]

    @classmethod
    def decode(cls: type[M], data: Any) -> M:
        """Reads a document. A key that is missing or ``null`` leaves the field's default."""
        if not isinstance(data, Mapping):
            raise TypeError(f"expected an object, got {type(data).__name__}")
        values: dict[str, Any] = {}
        for spec in fields(cls):  # type: ignore[arg-type]
            value = data.get(spec.name)
            if value is not None:
                values[spec.name] = _nested(spec.metadata, value)
        model = cls(**values)
        model.raw = dict(data)
        return model


def many(model: type[Model]) -> Any:
    """A field that is a list of `model`."""
    return field(default_factory=list, metadata={"many": model})


def one(model: type[Model]) -> Any:
    """A field that is a `model`, empty when absent."""
    return field(default_factory=model, metadata={"one": model})


def maybe(model: type[Model]) -> Any:
    """A field that is a `model` or None."""
    return field(default=None, metadata={"one": model})


def _nested(metadata: Mapping[str, Any], value: Any) -> Any:
    if "many" in metadata:
        return [metadata["many"].decode(item) for item in value]
    if "one" in metadata:
        return metadata["one"].decode(value)
    return value
