"""The Gemma family, 2, 3, 3n, 4 and FunctionGemma; the first three were never told of tools, but write code for them."""

from typing import ClassVar

from mlxctl.adapters.adapter import ModelAdapter
from mlxctl.adapters.habits import Habits


class GemmaAdapter(ModelAdapter):
    """A Gemma model. FunctionGemma ends a call by opening the answer to it."""

    habits: ClassVar[Habits] = Habits(
        family="gemma",
        tool_parser_ids=("gemma4", "function_gemma", "gemma"),
        injected_parser_id="gemma",
        end_tokens=("<end_of_turn>", "<turn|>", "<start_function_response>"),
    )
