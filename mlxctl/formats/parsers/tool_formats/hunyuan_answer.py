"""Thinking of Hunyuan A13B: `<think>`, then an `<answer>` tag."""

from mlxctl.formats.parsers.declarations import ThinkingParser

THINKING = ThinkingParser(
    id="hunyuan_answer",
    opener="<think>",
    closer="</think>",
    trims="\n",
    wrappers=("<answer>", "</answer>", "\n</answer>"),
    identifying_texts=("<answer>",),
    closed_block="<think>\n\n</think>\n",
    closing="\n</think>\n",
    supports_toggle=True,
)
