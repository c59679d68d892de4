"""Whether a model thinks aloud, in which format, and whether that can be switched off. What its template says is authoritative."""

from mlxctl.adapters import ModelAdapter
from mlxctl.ir import GenerationRequest, ModelCapabilities, ThinkingOptions, text_message
from mlxctl.parsers import THINKING_PARSER_IDS, extract, thinking_parser
from mlxctl.probe.interview import GREEDY, Interview, Transcript
from mlxctl.probe.questions import THINKING_QUESTION
from mlxctl.stores import Exchange, Finding, Verdict

_MAX_TOKENS = 512


async def check_thinking(interview: Interview, known: ModelCapabilities) -> tuple[Finding, ...]:  # noqa: ARG001
    """Have the model answer with thinking on and off; returns the findings on thinking and on the switch."""
    own = interview.adapter()
    own_parser_id = own.verdict.thinking_parser_id
    thought = await _ask(interview, own, is_on=True)
    parser_id = _reader(thought, own_parser_id)
    if parser_id is None and not own.supports_thinking:
        reason = "neither its template nor its answer shows any"
        return (
            Finding(question="thinking", verdict="no", reason=reason, exchanges=(thought.evidence(),)),
            Finding(question="thinking_toggle", verdict="no", reason="it does not think aloud"),
        )
    found = parser_id or own_parser_id
    adapter = interview.adapter(ModelCapabilities(thinking=True, thinking_parser_id=found))
    plain = await _ask(interview, adapter, is_on=False)
    return _thinking(own, thought, parser_id), _toggle(own, thought, plain, found)


async def _ask(interview: Interview, adapter: ModelAdapter, *, is_on: bool) -> Transcript:
    request = GenerationRequest(
        model=interview.model,
        messages=(text_message("user", THINKING_QUESTION),),
        sampling=GREEDY,
        thinking=ThinkingOptions(enabled=is_on),
        max_tokens=_MAX_TOKENS,
    )
    return await interview.ask(adapter, request)


def _reader(transcript: Transcript, own_parser_id: str) -> str | None:
    """Return the parser that reads thinking in the answer: the model's own, or else any."""
    others = (parser_id for parser_id in THINKING_PARSER_IDS if parser_id != own_parser_id)
    return next((parser_id for parser_id in (own_parser_id, *others) if _thinks(transcript, parser_id)), None)


def _thinks(transcript: Transcript, parser_id: str) -> bool:
    tail = transcript.prepared.prompt_tail
    return bool(extract(transcript.output, thinking=thinking_parser(parser_id), prompt_tail=tail).thinking.strip())


def _thinking(own: ModelAdapter, thought: Transcript, parser_id: str | None) -> Finding:
    if own.supports_thinking and parser_id is not None:
        reason = "its template says so, and it did"
    elif own.supports_thinking:
        reason = "its template says so; it did not think about what was asked"
    else:
        reason = "it did, though its template says nothing of it"
    evidence = thought.evidence(parser_id=parser_id)
    value = {"parser": parser_id or own.verdict.thinking_parser_id}
    return Finding(question="thinking", verdict="yes", reason=reason, value=value, exchanges=(evidence,))


def _toggle(own: ModelAdapter, thought: Transcript, plain: Transcript, parser_id: str) -> Finding:
    evidence = (plain.evidence(parser_id=parser_id),)
    if thought.prepared.token_ids == plain.prepared.token_ids:
        reason = "its prompt is the same with thinking on and off"
        return Finding(question="thinking_toggle", verdict="no", reason=reason, exchanges=evidence)
    if _thinks(plain, parser_id):
        return Finding(
            question="thinking_toggle", verdict="no", reason="it thinks all the same when told not to", exchanges=evidence
        )
    if not _thinks(thought, parser_id):
        return _silent_toggle(own, evidence)
    reason = "switched off, it answers at once"
    return Finding(question="thinking_toggle", verdict="yes", reason=reason, exchanges=evidence)


def _silent_toggle(own: ModelAdapter, evidence: tuple[Exchange, ...]) -> Finding:
    """Judge the switch of a model that did not think when it was told to: only its template can tell."""
    switch = own.verdict.thinking_switch
    verdict: Verdict = "yes" if switch else "unknown"
    reason = f"its template has a switch ({switch}); it thought neither way" if switch else "it thought neither way"
    return Finding(question="thinking_toggle", verdict=verdict, reason=reason, exchanges=evidence)
