"""Thinking of Kimi K3: a `think` section.

The answer is in a section called `response`.
"""

from mlxctl.formats.parsers.declarations import ThinkingParser

_OPENER, _CLOSER = "<|open|>think<|sep|>", "<|close|>think<|sep|>"
# Models forget the last token, and an answer may be cut off before it. Some put spaces around the name.
_ANSWER = ("<|open|>response", "<|close|>response", "<|close|>message")

THINKING = ThinkingParser(
    id="kimi_k3_think",
    opener=_OPENER,
    closer=_CLOSER,
    trims="\n",
    wrappers=(
        *(f"{begin}<|sep|>" for begin in _ANSWER),
        *(f"{begin.replace('|>', '|> ')} <|sep|>" for begin in _ANSWER),
    ),
    stray_markers=(*_ANSWER, "<|open|>", "<|close|>"),
    other_closers=("<|close|>think", "<|open|>response<|sep|>"),
    closed_block=f"{_OPENER}{_CLOSER}",
    closing=_CLOSER,
    supports_toggle=True,
)
