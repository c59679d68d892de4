"""Thinking in the analysis channel, as gpt-oss writes it in the harmony format.

Each message has a head: `<|start|>assistant<|channel|>analysis<|message|>` begins thinking, `final` the
answer, `commentary` without a recipient what is said before a call. A message to a recipient who is no tool
on offer is dropped. The models cannot be kept from thinking; an empty analysis makes it less likely.
"""

from mlxctl.parsers.declarations import ThinkingParser

_START, _OPENER = "<|start|>assistant", "<|channel|>analysis<|message|>"

THINKING = ThinkingParser(
    id="harmony_analysis",
    opener=_OPENER,
    closer="<|end|>",
    wrappers=(
        _START,
        "<|channel|>final<|message|>",
        "<|channel|>final <|constrain|>json<|message|>",
        "<|channel|>commentary<|message|>",
        "<|return|>",
        "<|call|>",
    ),
    dropped_openers=("<|start|>assistant to=", "<|channel|>commentary to=", "<|channel|>analysis to="),
    ends_at_calls=True,
    closed_block=f"{_OPENER}<|end|>{_START}",
    closing=f"<|end|>{_START}",
)
