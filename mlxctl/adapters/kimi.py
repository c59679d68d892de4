"""Moonshot's Kimi family: calls in a section of their own, thinking between tags."""

from typing import ClassVar

from mlxctl.adapters.adapter import ModelAdapter
from mlxctl.adapters.habits import Habits


class KimiAdapter(ModelAdapter):
    """A Kimi model."""

    habits: ClassVar[Habits] = Habits(
        family="kimi",
        tool_parser_ids=("kimi_k2",),
        end_tokens=("<|im_end|>", "[EOS]"),
    )
