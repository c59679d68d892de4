"""Thinking of PLaMo 3: `<|plamo:begin_think:plamo|>`."""

from mlxctl.formats.parsers.declarations import ThinkingParser

_OPENER, _CLOSER = "<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>"

THINKING = ThinkingParser(
    id="plamo_think",
    opener=_OPENER,
    closer=_CLOSER,
    trims="\n",
    closed_block=f"{_OPENER}{_CLOSER}",
    closing=_CLOSER,
    supports_toggle=True,
)
