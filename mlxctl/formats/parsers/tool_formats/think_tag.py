"""Thinking of Qwen3, DeepSeek-R1 and others: `<think>` to `</think>`."""

from mlxctl.formats.parsers.declarations import ThinkingParser

THINKING = ThinkingParser(
    id="think_tag",
    opener="<think>",
    closer="</think>",
    trims="\n",
    closed_block="<think>\n\n</think>\n\n",
    closing="\n</think>\n\n",
    supports_toggle=True,
)
