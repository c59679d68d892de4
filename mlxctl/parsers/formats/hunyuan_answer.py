"""Thinking in a `<think>` tag, and the answer behind it in an `<answer>` tag, as Hunyuan A13B writes them."""

from mlxctl.parsers.declarations import ThinkingParser

THINKING = ThinkingParser(
    id="hunyuan_answer",
    opener="<think>",
    closer="</think>",
    trims="\n",
    wrappers=("<answer>", "</answer>"),
    identifying_texts=("<answer>",),
    closed_block="<think>\n\n</think>\n",
    closing="\n</think>\n",
    supports_toggle=True,
)
