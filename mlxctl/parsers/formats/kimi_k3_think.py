"""Thinking of Kimi K3: a `think` section.

The answer is in a section called `response`.
"""

from mlxctl.parsers.declarations import ThinkingParser

_OPENER, _CLOSER = "<|open|>think<|sep|>", "<|close|>think<|sep|>"

THINKING = ThinkingParser(
    id="kimi_k3_think",
    opener=_OPENER,
    closer=_CLOSER,
    trims="\n",
    wrappers=("<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>"),
    other_closers=("<|open|>response<|sep|>",),
    closed_block=f"{_OPENER}{_CLOSER}",
    closing=_CLOSER,
    supports_toggle=True,
)
