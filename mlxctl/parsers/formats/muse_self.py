"""Thinking of Muse: messages to `self`.

Messages to `user` are the answer, those to `commentary` text before a call. Messages to others, such as
`developer`, are dropped.
"""

from mlxctl.parsers.declarations import ThinkingParser

_START, _END = "<|start|>assistant", "<|eom|>"
_OPENER = f"{_START} to=self<|message|>"
_ANSWERS = tuple(f"{_START} to={name}<|message|>" for name in ("user", "commentary"))

THINKING = ThinkingParser(
    id="muse_self",
    opener=_OPENER,
    closer=_END,
    other_openers=(f"{_START}to=self<|message|>", f"{_START}<|message|>"),
    other_closers=("<|eot|>", *_ANSWERS),
    wrappers=(_START, *_ANSWERS, f"{_START}to=user<|message|>", _END, "<|eot|>"),
    dropped_openers=(f"{_START} to=",),
    header_ends=("<|message|>",),
    identifying_texts=(" to=self<|message|>",),
    ends_at_calls=True,
    closed_block=f"{_START} to=self<|message|>{_END}{_START}",
    closing=f"{_END}{_START}",
)
