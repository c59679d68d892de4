"""The Mistral family with Magistral, Ministral and Devstral: calls behind one marker, in an old way and a new one."""

from typing import ClassVar

from mlxctl.adapters.adapter import ModelAdapter
from mlxctl.adapters.habits import Habits


class MistralAdapter(ModelAdapter):
    """A Mistral model."""

    habits: ClassVar[Habits] = Habits(
        family="mistral",
        tool_parser_ids=("mistral",),
        injected_parser_id="hermes_json",
        end_tokens=("</s>",),
    )
