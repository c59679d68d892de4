"""Thinking of Solar Open: a message that begins with `<|think|>`.

The message that begins with `<|content|>` is the answer.
"""

from mlxctl.formats.parsers.declarations import ThinkingParser

_ROLE, _OPENER, _CLOSER = "<|begin|>assistant", "<|think|>", "<|end|>"

THINKING = ThinkingParser(
    id="solar_think",
    opener=_OPENER,
    closer=_CLOSER,
    other_closers=(_ROLE,),
    wrappers=(_ROLE, "<|content|>"),
    closed_block=f"{_OPENER}{_CLOSER}{_ROLE}",
    closing=f"{_CLOSER}{_ROLE}",
    supports_toggle=True,
)
