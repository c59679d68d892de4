"""Test of conversations: end of answers, and template support."""

import msgspec

from mlxctl.ir import GenerationRequest, ModelCapabilities, ProbeVerdict, ThinkingOptions, text_message
from mlxctl.probe.interview import GREEDY, Interview
from mlxctl.probe.questions import CHAT_QUESTION
from mlxctl.state.stores import Finding

_MAX_TOKENS = 256


async def check_chat(interview: Interview, known: ModelCapabilities) -> tuple[Finding, ...]:
    """Generate an answer to a simple question.

    A model that does not end in time may only be verbose, so the verdict is unknown then.
    """
    request = GenerationRequest(
        model=interview.model,
        messages=(text_message("user", CHAT_QUESTION),),
        sampling=GREEDY,
        thinking=ThinkingOptions(enabled=False),
        max_tokens=_MAX_TOKENS,
    )
    transcript = await interview.ask(interview.adapter(known), request)
    verdict: ProbeVerdict = "yes"
    reason = f"it answered and ended by itself after {len(transcript.token_ids)} tokens"
    if transcript.is_cut_off:
        verdict, reason = "unknown", f"it had not ended after {_MAX_TOKENS} tokens"
    elif not transcript.result.text.strip():
        verdict, reason = "no", "it ended without text"
    return (Finding(question="chat", verdict=verdict, reason=reason, exchanges=(transcript.evidence(),)),)


async def check_template(interview: Interview, known: ModelCapabilities) -> tuple[Finding, ...]:
    """Report what the template's detection found; nothing is generated.

    Content that a template does not support is converted when the model is served.
    """
    shape = interview.adapter(known).verdict
    takes_turns = shape.takes_calls and shape.takes_results
    turns = {
        "past calls": shape.takes_calls,
        "their results": shape.takes_results,
        "several calls at once": shape.takes_parallel_calls,
        "text beside calls": shape.takes_text_beside_calls,
    }
    taken = [name for name, is_taken in turns.items() if is_taken]
    reason = (
        f"its template shows {', '.join(taken)}" if taken else "its template shows neither calls nor results"
    )
    later = (
        "its template shows one that comes later"
        if shape.takes_later_system
        else "its template loses one that comes later"
    )
    value = {"shows": taken, "adapter": msgspec.json.decode(msgspec.json.encode(shape))}
    return (
        Finding(question="later_system", verdict="yes" if shape.takes_later_system else "no", reason=later),
        Finding(
            question="tool_turns",
            verdict="yes" if takes_turns else "no",
            reason=reason,
            value=value,
        ),
    )
