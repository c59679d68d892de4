"""The DeepSeek family, V3 to V4 and R1: calls behind special tokens, in three ways, thinking between tags."""

from typing import ClassVar

from mlxctl.adapters.adapter import ModelAdapter
from mlxctl.adapters.habits import Habits


class DeepseekAdapter(ModelAdapter):
    """A DeepSeek model."""

    habits: ClassVar[Habits] = Habits(
        family="deepseek",
        tool_parser_ids=("deepseek",),
        injected_parser_id="hermes_json",
        end_tokens=("<｜end▁of▁sentence｜>",),
    )
