"""What a chat template writes around the text of a user's message. Pure."""

from mlxctl.adapters import ModelAdapter
from mlxctl.errors import InvalidRequest
from mlxctl.inference.cache.places import num_common
from mlxctl.ir import GenerationRequest, text_message

_FIRST, _REPLY, _SECOND = "Qfirstq", "Qreplyq", "Qsecondq"


def user_markers(adapter: ModelAdapter) -> tuple[str, str] | None:
    """Return what stands before and behind a user's message, None for a model without a chat template."""
    messages = (text_message("user", _FIRST), text_message("assistant", _REPLY), text_message("user", _SECOND))
    try:
        text = adapter.prompt_text(GenerationRequest(model=adapter.name, messages=messages))
    except InvalidRequest:
        return None
    before, _, rest = text.partition(_FIRST)
    between, _, behind = rest.partition(_SECOND)
    between, _, before_second = between.partition(_REPLY)
    if not before_second:
        return None
    num_before = num_common(before[::-1], before_second[::-1])
    return before[len(before) - num_before :], between[: num_common(between, behind)]
