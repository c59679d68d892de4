"""The Qwen family, 2 to 3.5, with its coders: ChatML, calls between tags, thinking between tags from version 3 on."""

from typing import ClassVar

from mlxctl.adapters.adapter import ModelAdapter
from mlxctl.adapters.habits import Habits


class QwenAdapter(ModelAdapter):
    """A Qwen model.

    Configurations name `<|endoftext|>` or `<|im_end|>`, seldom both; a model that was trained on further text may say either.
    """

    habits: ClassVar[Habits] = Habits(
        family="qwen",
        tool_parser_ids=("hermes_json", "qwen3_coder"),
        end_tokens=("<|im_end|>", "<|endoftext|>"),
    )
