"""Thinking of K2 Horizon: `<ifm|think>`, with other tags for less effort."""

from mlxctl.formats.parsers.declarations import ThinkingParser

THINKING = ThinkingParser(
    id="ifm_think",
    opener="<ifm|think>",
    closer="</ifm|think>",
    other_openers=("<ifm|think_fast>", "<ifm|think_faster>"),
    other_closers=("</ifm|think_fast>", "</ifm|think_faster>"),
    trims="\n",
    closed_block="<ifm|think></ifm|think>",
    closing="</ifm|think>",
    supports_toggle=True,
)
