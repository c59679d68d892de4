"""What a model's adapter found out about it when it was made: a plain value, to be stored and shown."""

from dataclasses import dataclass
from typing import Literal

Delivery = Literal["template", "injected", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterVerdict:
    """What the model is taken for, and what the canary conversations showed of its template.

    `tool_delivery` is how tools are offered: by the template, in the system prompt, or not. `opens_thinking` says that a prompt
    ends with an open thought unless told otherwise; `keeps_thinking` that thinking of finished turns is shown again,
    `keeps_turn_thinking` that thinking within a turn of calls is. What is not taken is converted (`reshaping`, `call_shape`).
    """

    family: str
    tool_parser_id: str
    thinking_parser_id: str
    tool_delivery: Delivery
    can_force_tools: bool
    thinking_switch: str | None
    supports_thinking_toggle: bool
    opens_thinking: bool
    keeps_thinking: bool
    keeps_turn_thinking: bool
    takes_system: bool
    takes_later_system: bool
    takes_repeated_roles: bool
    takes_tools: bool
    takes_calls: bool
    takes_parallel_calls: bool
    takes_text_beside_calls: bool
    takes_results: bool
