"""Thinking of gpt-oss: the analysis channel of the harmony format.

Each message has a header: `<|start|>assistant<|channel|>analysis<|message|>` begins thinking, `final` the
answer, `commentary` without a recipient text before a call. A message to a recipient that is no available
tool is dropped. Thinking cannot be turned off; an empty analysis makes it less likely. LLM-jp's tokenizer
decodes a space after each control token, which is part of no text.
"""

from mlxctl.formats.parsers.declarations import ThinkingParser

_START, _END, _OPENER = "<|start|>assistant", "<|end|>", "<|channel|>analysis<|message|>"
# Models write the type of the content in several ways, and forget tokens of a header.
_TYPES = ("", " <|constrain|>json", "<|constrain|>json", " json", " <|constrain|> json")
_MESSAGES = (
    *(f"<|channel|>{channel}{kind}<|message|>" for channel in ("final", "commentary") for kind in _TYPES),
    *(f"<|channel|> {channel}{kind}<|message|> " for channel in ("final", "commentary") for kind in _TYPES),
)

THINKING = ThinkingParser(
    id="harmony_analysis",
    opener=_OPENER,
    closer=_END,
    other_openers=("<|channel|> analysis<|message|> ",),
    other_closers=(f"{_END}assistant",),
    wrappers=(_START, "<|start|> assistant", *_MESSAGES, "<|return|>", "<|call|>"),
    stray_markers=("<|start|>",),
    dropped_openers=(
        f"{_START} to=",
        "<|start|> assistant to=",
        f"{_END}assistant to=",
        "<|channel|>commentary to=",
        "<|channel|> commentary to=",
        "<|channel|>analysis to=",
    ),
    header_ends=("<|message|>", "<|channel|>commentary<|message|>"),
    has_messages=True,
    message_break="\n",
    closed_block=f"{_OPENER}{_END}{_START}",
    closing=f"{_END}{_START}",
)
