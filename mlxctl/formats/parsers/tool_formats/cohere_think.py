"""Thinking of Command A and R7B: `<|START_THINKING|>`.

The answer is enclosed in tags, too. Texts that cite a document or tool result are enclosed in `<co>`.
"""

from mlxctl.formats.parsers.declarations import ThinkingParser

THINKING = ThinkingParser(
    id="cohere_think",
    opener="<|START_THINKING|>",
    closer="<|END_THINKING|>",
    trims="\n ",
    wrappers=("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"),
    citation_tag="co",
    closed_block="<|START_THINKING|><|END_THINKING|>",
    closing="<|END_THINKING|>",
    supports_toggle=True,
)
