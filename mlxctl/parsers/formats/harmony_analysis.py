"""Thinking of gpt-oss: the analysis channel of the harmony format.

Each message has a header: `<|start|>assistant<|channel|>analysis<|message|>` begins thinking, `final` the
answer, `commentary` without a recipient text before a call. A message to a recipient that is no available
tool is dropped. Thinking cannot be turned off; an empty analysis makes it less likely.
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
    stray_markers=("<|start|>",),
    dropped_openers=("<|start|>assistant to=", "<|channel|>commentary to=", "<|channel|>analysis to="),
    header_ends=("<|message|>", "<|channel|>commentary<|message|>"),
    ends_at_calls=True,
    closed_block=f"{_OPENER}<|end|>{_START}",
    closing=f"<|end|>{_START}",
)
