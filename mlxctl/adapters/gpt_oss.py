"""gpt-oss: messages in channels, thinking that has three efforts and cannot be turned off."""

from typing import ClassVar

from mlxctl.adapters.adapter import ModelAdapter
from mlxctl.adapters.habits import Habits


class GptOssAdapter(ModelAdapter):
    """A gpt-oss model. It ends an answer with `<|return|>` and a call with `<|call|>`; `<|end|>` ends a message among others."""

    habits: ClassVar[Habits] = Habits(
        family="gpt-oss",
        tool_parser_ids=("harmony",),
        end_tokens=("<|return|>", "<|call|>", "<|endoftext|>"),
        efforts={"none": "low", "minimal": "low", "xhigh": "high", "max": "high"},
    )
