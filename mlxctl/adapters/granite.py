"""IBM's Granite family: calls as a list behind a marker in version 3, between tags in version 4."""

from typing import ClassVar

from mlxctl.adapters.adapter import ModelAdapter
from mlxctl.adapters.habits import Habits


class GraniteAdapter(ModelAdapter):
    """A Granite model."""

    habits: ClassVar[Habits] = Habits(
        family="granite",
        tool_parser_ids=("granite", "hermes_json"),
        end_tokens=("<|end_of_text|>",),
    )
