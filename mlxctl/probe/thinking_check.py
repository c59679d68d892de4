"""Test of thinking: whether it is generated, its format, and the switch."""

from collections.abc import Sequence

from mlxctl.formats.adapters import ModelAdapter, described_parsers
from mlxctl.formats.parsers import TemplateParsers, ThinkingParser, extract
from mlxctl.ir import GenerationRequest, ModelCapabilities, ProbeVerdict, ThinkingOptions, text_message
from mlxctl.probe.interview import GREEDY, Interview, ProbeTranscript
from mlxctl.probe.questions import THINKING_QUESTIONS
from mlxctl.state.stores import Finding

_MAX_TOKENS = 512


async def check_thinking(interview: Interview, known: ModelCapabilities) -> tuple[Finding, ...]:  # noqa: ARG001
    """Generate with thinking on and off.

    Return findings on thinking and on the switch. Only generated thinking is a "yes". A model whose template
    supports thinking and that did not think stays unknown, and is served as its template says.
    """
    own = interview.adapter()
    own_parser_id, described = own.verdict.thinking_parser_id, described_parsers(interview.facts)
    transcripts: list[ProbeTranscript] = []
    parser_id = None
    for question in THINKING_QUESTIONS:
        transcripts.append(await _ask(interview, own, question, is_on=True))
        parser_id = _find_parser(transcripts[-1], own_parser_id, described)
        if parser_id is not None or not own.supports_thinking:
            break
    if parser_id is None:
        return _no_thinking(own, transcripts)
    adapter = interview.adapter(ModelCapabilities(thinking=True, thinking_parser_id=parser_id))
    plain = await _ask(interview, adapter, THINKING_QUESTIONS[len(transcripts) - 1], is_on=False)
    reason = (
        "its template offers it, and it did"
        if own.supports_thinking
        else "it did, though its template does not offer it"
    )
    evidence = transcripts[-1].evidence(parser_id=parser_id)
    return (
        Finding(
            question="thinking",
            verdict="yes",
            reason=reason,
            value={"parser": parser_id},
            exchanges=(evidence,),
        ),
        _toggle(transcripts[-1], plain, described.thinking_parser(parser_id)),
    )


async def _ask(interview: Interview, adapter: ModelAdapter, question: str, *, is_on: bool) -> ProbeTranscript:
    request = GenerationRequest(
        model=interview.model,
        messages=(text_message("user", question),),
        sampling=GREEDY,
        thinking=ThinkingOptions(enabled=is_on),
        max_tokens=_MAX_TOKENS,
    )
    return await interview.ask(adapter, request)


def _find_parser(transcript: ProbeTranscript, own_parser_id: str, described: TemplateParsers) -> str | None:
    """Return the parser that finds thinking, preferring the model's own."""
    ids = dict.fromkeys((own_parser_id, *described.thinking_ids))
    return next(
        (parser_id for parser_id in ids if _thinks(transcript, described.thinking_parser(parser_id))), None
    )


def _thinks(transcript: ProbeTranscript, parser: ThinkingParser) -> bool:
    """Whether the model closed a thinking block, or opened one itself."""
    tail = transcript.prepared.prompt_tail
    if (
        not parser.opener
        or not extract(transcript.output, thinking=parser, prompt_tail=tail).thinking.strip()
    ):
        return False
    # After an open marker, all text parses as thinking, also the answer of a model that does not think.
    return parser.closer in transcript.output or parser.opener in transcript.output


def _no_thinking(own: ModelAdapter, transcripts: Sequence[ProbeTranscript]) -> tuple[Finding, Finding]:
    exchanges = tuple(transcript.evidence() for transcript in transcripts)
    verdict: ProbeVerdict
    if not own.supports_thinking:
        reason, verdict, toggle = "neither its template nor its answer has any", "no", "it does not think"
    elif any(transcript.is_cut_off for transcript in transcripts):
        reason, verdict = (
            f"its template offers it, but no thinking block ended within {_MAX_TOKENS} tokens",
            "unknown",
        )
        toggle = "no thinking was generated"
    else:
        reason, verdict = (
            f"its template offers it, but it did not think in {len(transcripts)} answers",
            "unknown",
        )
        toggle = "no thinking was generated"
    return (
        Finding(question="thinking", verdict=verdict, reason=reason, exchanges=exchanges),
        Finding(question="thinking_toggle", verdict=verdict, reason=toggle),
    )


def _toggle(transcript_on: ProbeTranscript, plain: ProbeTranscript, parser: ThinkingParser) -> Finding:
    """Judge the thinking switch of a model that thinks."""
    verdict: ProbeVerdict = "no"
    if transcript_on.prepared.token_ids == plain.prepared.token_ids:
        reason = "its prompt is the same with thinking on and off"
    elif _thinks(plain, parser):
        reason = "it also thinks when switched off"
    elif not plain.result.text.strip():
        verdict, reason = "unknown", "switched off, it gave no answer"
    else:
        verdict, reason = "yes", "switched off, it answers at once"
    exchanges = (plain.evidence(parser_id=parser.id),)
    return Finding(question="thinking_toggle", verdict=verdict, reason=reason, exchanges=exchanges)
