"""Thinking of Muse: messages to `self`.

Messages to `user` are the answer, those to `commentary` text before a call. Messages to others, such as
`developer`, are dropped.
"""

from mlxctl.formats.parsers.declarations import ThinkingParser

_START, _END = "<|start|>assistant", "<|eom|>"
_OPENER = f"{_START} to=self<|message|>"
# The last ones are headers without their first tokens, or without any.
_HEADERS = tuple(f"{start} to=" for start in (_START, f"{_END}assistant", _END))
_BARE = " to="
_ANSWERS = tuple(
    f"{header}{name}<|message|>" for header in (*_HEADERS, _BARE) for name in ("user", "commentary")
)

THINKING = ThinkingParser(
    id="muse_self",
    opener=_OPENER,
    closer=_END,
    other_openers=(
        f"{_START}to=self<|message|>",
        f"{_START}<|message|>",
        *(f"{header}self<|message|>" for header in (*_HEADERS[1:], _BARE)),
    ),
    other_closers=("<|eot|>",),
    wrappers=(
        _START,
        *_ANSWERS,
        *(f"{_START}to={name}<|message|>" for name in ("user", "commentary")),
        _END,
        "<|eot|>",
    ),
    dropped_openers=(*_HEADERS, f"{_START}to=", f"{_BARE}developer<|message|>"),
    header_ends=("<|message|>",),
    identifying_texts=(" to=self<|message|>",),
    has_messages=True,
    closed_block=f"{_START} to=self<|message|>{_END}{_START}",
    closing=f"{_END}{_START}",
)
