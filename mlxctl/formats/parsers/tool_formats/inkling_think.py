"""Thinking of Inkling: a message that begins with `<|content_thinking|>`.

The other kinds of messages are the answer. What stands between `<|message_model|>` and the kind is dropped.
"""

from mlxctl.formats.parsers.declarations import ThinkingParser

_MESSAGE, _OPENER, _CLOSER = "<|message_model|>", "<|content_thinking|>", "<|end_message|>"
_END = "<|content_model_end_sampling|>"

THINKING = ThinkingParser(
    id="inkling_think",
    opener=_OPENER,
    closer=_CLOSER,
    other_closers=(_MESSAGE, _END),
    wrappers=("<|content_text|>", "<|content_invoke_tool_text|>", "<|content_tool_error|>", _END),
    dropped_openers=(_MESSAGE,),
    has_messages=True,
    closed_block=f"{_OPENER}{_CLOSER}{_MESSAGE}",
    closing=f"{_CLOSER}{_MESSAGE}",
)
