"""Tool calls of gpt-oss: messages to `functions.f` in the commentary channel.

The content is the arguments. The recipient follows the channel or the role: `<|channel|>commentary
to=functions.f <|constrain|>json` or `<|start|>assistant to=functions.f<|channel|>commentary json`, then
`<|message|>{"a": 1}<|call|>`. The models also write `code` instead of `json`. LLM-jp's
tokenizer decodes a space after each control token.
"""

import re

from mlxctl.formats.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.formats.parsers.headed_json import CallHead, HeadedJsonBody

_IN_CHANNEL, _IN_ROLE = "<|channel|>commentary to=", "<|start|>assistant to="
_SPACED = ("<|channel|> commentary to=", "<|start|> assistant to=")
_CALL = "<|call|>"

_HEAD = CallHead(
    pattern=re.compile(
        r"(?P<functions>functions\.)?(?P<name>[^\s<|{}]+)\s*(?:<\|channel\|>\s*(?:commentary|analysis))?\s*"
        r"(?:<\|constrain\|>)?\s*(?(functions)(?:json|code)?|(?:json)?)\s*<\|message\|>\s*"
    ),
    may_begin=re.compile(
        r"[^\s<{}]*\s*(?:<\|channel\|>\s*\w*)?\s*(?:<\|constrain\|>)?\s*\w*\s*(?:<\|message\|>\s*)?(?:<[|a-z]*)?"
    ),
    tails=(_CALL,),
    others=frozenset({"assistant", "browser", "container", "python"}),
)


def _open_body(opening: Opening) -> HeadedJsonBody:
    return HeadedJsonBody(_HEAD, opening.tools)


def _force_in_channel(name: str | None) -> str:
    return f"{_IN_CHANNEL}functions." + ("" if name is None else f"{name} <|constrain|>json<|message|>")


def _force_in_role(name: str | None) -> str:
    rest = "" if name is None else f"{name}<|channel|>commentary <|constrain|> json<|message|>"
    return f"{_IN_ROLE}functions.{rest}"


TOOLS = ToolParser(
    id="harmony",
    opener=_IN_CHANNEL,
    # The last is a header whose first token is missing.
    other_openers=(_IN_ROLE, *_SPACED, "<|channel|>analysis to=", "<|end|>assistant to="),
    closer=_CALL,
    open_body=_open_body,
    inner_markers=("<|start|>", "<|channel|>", "<|constrain|>", "<|message|>"),
    forced_prefix=_force_in_channel,
    dialects=(_force_in_role,),
    closings=(Closing(prefix_end="<|message|>", call_end=_CALL),),
)
