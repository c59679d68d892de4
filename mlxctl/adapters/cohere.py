"""Cohere's Command family: actions, plans and answers between tags of their own."""

from typing import ClassVar

from mlxctl.adapters.adapter import ModelAdapter
from mlxctl.adapters.habits import Habits


class CohereAdapter(ModelAdapter):
    """A Command model. Its newer templates call the thinking switch `reasoning`."""

    habits: ClassVar[Habits] = Habits(
        family="cohere",
        tool_parser_ids=("command_r",),
        end_tokens=("<|END_OF_TURN_TOKEN|>",),
        thinking_switches=("enable_thinking", "thinking", "reasoning"),
    )
