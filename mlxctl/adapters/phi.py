"""Microsoft's Phi family, 3 to 4, with Phi-4-mini, the one that was told of tools."""

from typing import ClassVar

from mlxctl.adapters.adapter import ModelAdapter
from mlxctl.adapters.habits import Habits


class PhiAdapter(ModelAdapter):
    """A Phi model."""

    habits: ClassVar[Habits] = Habits(
        family="phi",
        tool_parser_ids=("phi4",),
        injected_parser_id="hermes_json",
        end_tokens=("<|end|>", "<|im_end|>", "<|endoftext|>"),
    )
