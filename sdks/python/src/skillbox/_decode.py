"""Decodes JSON into dataclasses, tolerating documents of newer and older servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any, TypeVar

M = TypeVar("M", bound="Model")


class Model:
    """A document of the API. `raw` holds the complete document, including keys that this version does not know."""

    raw: dict[str, Any]

    @classmethod
    def decode(cls: type[M], data: Any) -> M:
        """Decodes a document. A field whose key is missing or ``null`` keeps its default."""
        if not isinstance(data, Mapping):
            raise TypeError(f"expected an object, got {type(data).__name__}")
        values: dict[str, Any] = {}
        for spec in fields(cls):  # type: ignore[arg-type]
            value = data.get(spec.name)
            if value is not None:
                values[spec.name] = _decode_field(spec.metadata, value)
        model = cls(**values)
        model.raw = dict(data)
        return model


def list_of(model: type[Model]) -> Any:
    """Declares a field that holds a list of `model`."""
    return field(default_factory=list, metadata={"many": model})


def nested_model(model: type[Model]) -> Any:
    """Declares a field that holds a `model`, default-constructed if absent."""
    return field(default_factory=model, metadata={"one": model})


def optional_model(model: type[Model]) -> Any:
    """Declares a field that holds a `model` or None."""
    return field(default=None, metadata={"one": model})


def _decode_field(metadata: Mapping[str, Any], value: Any) -> Any:
    if "many" in metadata:
        return [metadata["many"].decode(item) for item in value]
    if "one" in metadata:
        return metadata["one"].decode(value)
    return value
