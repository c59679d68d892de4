"""What a chat template writes around the text of a user's message. Pure."""

from mlxctl.adapters import ModelAdapter
from mlxctl.inference.cache.prompt_sections import num_common, rendered
from mlxctl.ir import GenerationRequest, text_message

_FIRST, _REPLY, _SECOND = "Qfirstq", "Qreplyq", "Qsecondq"
_MESSAGES = (text_message("user", _FIRST), text_message("assistant", _REPLY), text_message("user", _SECOND))
_SYSTEM = text_message("system", "Qsystemq")


def user_markers(adapter: ModelAdapter) -> tuple[str, str] | None:
    """Return what stands before and behind a user's message, None for a model without a chat template."""
    befores: list[str] = []
    behinds: list[str] = []
    # At the beginning, behind an answer, and behind a system prompt: what is the same in all places.
    for messages in (_MESSAGES, (_SYSTEM, *_MESSAGES)):
        text = rendered(GenerationRequest(model=adapter.name, messages=messages), adapter)
        if text is not None:
            before, _, rest = text.partition(_FIRST)
            between, _, behind = rest.partition(_SECOND)
            befores += [before, between.rpartition(_REPLY)[2]]
            behinds += [between.partition(_REPLY)[0], behind]
    if not all(befores) or not befores:
        return None
    num_before = min(num_common(befores[0][::-1], other[::-1]) for other in befores)
    num_behind = min(num_common(behinds[0], other) for other in behinds)
    return befores[0][len(befores[0]) - num_before :], behinds[0][:num_behind]
