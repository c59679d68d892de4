"""The GLM family, 4 and 4.5 to 4.7: calls with tagged arguments, thinking between tags from 4.5 on."""

from typing import ClassVar

from mlxctl.adapters.adapter import ModelAdapter
from mlxctl.adapters.habits import Habits


class Glm4Adapter(ModelAdapter):
    """A GLM model. It hands over by opening somebody else's turn: the user's, or the tool's."""

    habits: ClassVar[Habits] = Habits(
        family="glm4",
        tool_parser_ids=("glm4_native", "glm4_xml"),
        end_tokens=("<|endoftext|>", "<|user|>", "<|observation|>"),
    )
