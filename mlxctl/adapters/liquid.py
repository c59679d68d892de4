"""Liquid's LFM2 family: ChatML, calls as Python between two markers."""

from typing import ClassVar

from mlxctl.adapters.adapter import ModelAdapter
from mlxctl.adapters.habits import Habits


class LiquidAdapter(ModelAdapter):
    """A Liquid model."""

    habits: ClassVar[Habits] = Habits(
        family="liquid",
        tool_parser_ids=("liquid_python",),
        end_tokens=("<|im_end|>",),
    )
