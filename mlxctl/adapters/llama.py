"""The Llama family, 3.x and 4: calls without a marker, as JSON or Python, or behind the Python tag."""

from typing import ClassVar

from mlxctl.adapters.adapter import ModelAdapter
from mlxctl.adapters.habits import Habits


class LlamaAdapter(ModelAdapter):
    """A Llama model. `<|eom_id|>` ends a message that waits for a tool, `<|eot_id|>` a turn."""

    habits: ClassVar[Habits] = Habits(
        family="llama",
        tool_parser_ids=("llama_python", "llama_xml"),
        injected_parser_id="hermes_json",
        end_tokens=("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|eot|>", "<|eom|>"),
    )
