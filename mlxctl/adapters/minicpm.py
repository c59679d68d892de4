"""OpenBMB's MiniCPM family: calls in tags without anything around them."""

from typing import ClassVar

from mlxctl.adapters.adapter import ModelAdapter
from mlxctl.adapters.habits import Habits


class MinicpmAdapter(ModelAdapter):
    """A MiniCPM model."""

    habits: ClassVar[Habits] = Habits(
        family="minicpm",
        tool_parser_ids=("minicpm5",),
        end_tokens=("<|im_end|>", "</s>"),
    )
