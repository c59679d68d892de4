"""Thinking of Command A and R7B between `<|START_THINKING|>` and `<|END_THINKING|>`; they put tags around the
answer, too.
"""

from mlxctl.parsers.declarations import ThinkingParser

THINKING = ThinkingParser(
    id="cohere_think",
    opener="<|START_THINKING|>",
    closer="<|END_THINKING|>",
    trims="\n",
    wrappers=("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"),
    closed_block="<|START_THINKING|><|END_THINKING|>",
    closing="<|END_THINKING|>",
    supports_toggle=True,
)
