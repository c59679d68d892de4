"""The language model's part of a configuration, nested in composite models."""

from collections.abc import Mapping
from typing import Any

_PARTS = ("text_config", "llm_config", "language_config")


def whole_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration, merged over its part that understands.

    Models that also speak have such a part.
    """
    thinker = config.get("thinker_config")
    return {**thinker, **config} if isinstance(thinker, Mapping) else dict(config)


def text_part(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the language model's part, merged over the outer configuration."""
    config = whole_config(config)
    part: Mapping[str, Any] = next(
        (config[name] for name in _PARTS if isinstance(config.get(name), Mapping)), {}
    )
    return {**config, **part}


def whole_number(config: Mapping[str, Any], *names: str) -> int | None:
    """Return the first field that is a whole number from 0."""
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None
