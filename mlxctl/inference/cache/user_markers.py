"""Markers that a chat template writes around user messages. Pure."""

from mlxctl.formats.adapters import ModelAdapter
from mlxctl.inference.cache.prompt_sections import rendered
from mlxctl.ir import GenerationRequest, text_message
from mlxctl.ir.tokens import common_length

_FIRST, _REPLY, _SECOND = "Qfirstq", "Qreplyq", "Qsecondq"
_MESSAGES = (text_message("user", _FIRST), text_message("assistant", _REPLY), text_message("user", _SECOND))
_SYSTEM = text_message("system", "Qsystemq")


def user_markers(adapter: ModelAdapter) -> tuple[str, str] | None:
    """Return the template's text before and after a user message.

    None without a chat template.
    """
    befores: list[str] = []
    afters: list[str] = []
    # First, after an answer, and after a system prompt: the markers are what all positions share.
    for messages in (_MESSAGES, (_SYSTEM, *_MESSAGES)):
        request = adapter.normalized(GenerationRequest(model=adapter.name, messages=messages))
        text = rendered(request, adapter)
        if text is not None:
            before, _, rest = text.partition(_FIRST)
            between, _, after = rest.partition(_SECOND)
            befores += [before, between.rpartition(_REPLY)[2]]
            afters += [between.partition(_REPLY)[0], after]
    if not all(befores) or not befores:
        return None
    num_before = min(common_length(befores[0][::-1], other[::-1]) for other in befores)
    num_after = min(common_length(afters[0], other) for other in afters)
    return befores[0][len(befores[0]) - num_before :], afters[0][:num_after]
