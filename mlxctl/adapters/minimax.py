"""MiniMax M2 and its kin: calls in tags with names as attributes, thinking that every prompt opens."""

from typing import ClassVar

from mlxctl.adapters.adapter import ModelAdapter
from mlxctl.adapters.habits import Habits


class MinimaxAdapter(ModelAdapter):
    """A MiniMax model."""

    habits: ClassVar[Habits] = Habits(
        family="minimax",
        tool_parser_ids=("minimax_m2",),
        end_tokens=("[e~[",),
    )
