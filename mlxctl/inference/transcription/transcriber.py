"""Transcription of a file with a loaded model. Event-loop thread only."""

from collections.abc import Callable, Iterator, Sequence

from mlxctl.inference.call_context import CallContext
from mlxctl.inference.preparation import PreparationPool
from mlxctl.inference.request_entry import TokenContent
from mlxctl.inference.request_log import RequestLog
from mlxctl.inference.screening import OutputRules, Screened
from mlxctl.inference.session import ModelSession
from mlxctl.inference.transcription.guarded_segments import GuardedSegments
from mlxctl.inference.transcription.parts import transcribe_parts
from mlxctl.inference.transcription.speakers import Speakers
from mlxctl.inference.transcription.whisper import transcribe_with_whisper
from mlxctl.inference.transcription.work import TranscriptionWork
from mlxctl.ir import Purpose, SpeechSegment, TranscriptionRecipe, TranscriptionRequest, TranscriptionResult
from mlxctl.ir.errors import InvalidRequest
from mlxctl.ir.transcription import SAMPLE_RATE


async def transcribe(
    request: TranscriptionRequest,
    prompt: Screened[str],
    call: CallContext,
    *,
    session: ModelSession,
    rules: OutputRules | None,
    preparation: PreparationPool,
    log: RequestLog,
    aligner: ModelSession | None = None,
    diarizer: ModelSession | None = None,
    on_segments: Callable[[Sequence[SpeechSegment]], None] = lambda _: None,
) -> TranscriptionResult:
    """Transcribe with a loaded model; `on_segments` gets those of each window.

    The `prompt` is that of the request, with its keywords. Raises RequestError, CapacityError, EngineError.
    """
    recipe = session.reader.facts.transcription
    assert recipe is not None, "only transcription models are used here"
    check_request(request, recipe)
    entry = log.begin(request.model, call, num_prompt_tokens=0)
    work = TranscriptionWork(
        request=request,
        recipe=recipe,
        session=session,
        entry=entry,
        guarded=GuardedSegments(rules),
        on_segments=on_segments,
        request_id=call.request_id,
        language=_language(request, recipe),
        aligner=aligner,
        speakers=None if diarizer is None else Speakers(diarizer, call.request_id),
    )
    if call.record.keeps_content:
        entry.content = TokenContent(
            prompt_ids=work.prompt_ids,
            answer_ids=work.answer_ids,
            bytes_of=session.reader.tokens.bytes_of if recipe.whisper else work.text_bytes,
        )
    with entry.until_done():
        if work.speakers is not None:
            await work.speakers.enroll(request.known_speakers)
        if recipe.whisper is not None:
            language = await transcribe_with_whisper(work, recipe.whisper, prompt.content, preparation)
        else:
            language = await transcribe_parts(work, prompt.content)
        work.finish()
    return TranscriptionResult(
        language=language,
        duration_seconds=request.num_samples / SAMPLE_RATE,
        segments=tuple(work.segments),
    )


def helpers_of(
    request: TranscriptionRequest, session: ModelSession
) -> Iterator[tuple[Purpose, InvalidRequest]]:
    """Yield the purposes of further models that a request needs.

    With each, the error for a server that has none.
    """
    recipe = session.reader.facts.transcription
    assert recipe is not None, "only transcription models are used here"
    field = "response_format diarized_json" if request.diarized else "timestamp_granularities"
    param = field.partition(" ")[0]
    if request.word_times and not recipe.has_word_times:
        message = f"{field}: model {request.model!r} needs an alignment model for the times of words; "
        message += "serve Qwen3-ForcedAligner, too, or request verbose_json with segment timestamps"
        yield "alignment", InvalidRequest(message, param=param)
    if request.diarized:
        message = f"{field} needs a diarization model; serve Sortformer, too, or request verbose_json"
        yield "diarization", InvalidRequest(message, param=param)


def check_request(request: TranscriptionRequest, recipe: TranscriptionRecipe) -> None:
    """Raise InvalidRequest for a field that the model cannot honor."""
    name = request.model
    if request.task == "translate" and not recipe.translates:
        what = "supports English only and cannot translate" if recipe.whisper else "cannot translate"
        raise InvalidRequest(f"model {name!r} {what}", param="model")
    refused = {
        "prompt": bool(request.prompt) and not recipe.takes_prompt,
        "keywords": bool(request.keywords) and not recipe.takes_prompt,
        "temperature": request.temperature > 0 and not recipe.takes_temperature,
    }
    if field := next((field for field, is_refused in refused.items() if is_refused), None):
        raise InvalidRequest(f"{field} is not supported by model {name!r}; leave it out", param=field)
    if request.language is not None:
        _check_language(request.language, recipe, name, param="language")
    for language in request.languages:
        _check_language(language, recipe, name, param="languages")
    if len(request.languages) > 1 and recipe.whisper is None:
        message = f"languages: model {name!r} chooses among all of its languages or takes one; name one"
        raise InvalidRequest(message, param="languages")


def _check_language(code: str, recipe: TranscriptionRecipe, name: str, *, param: str) -> None:
    if recipe.languages is None:
        message = f"{param} is not supported by model {name!r}, which detects the language; leave it out"
        raise InvalidRequest(message, param=param)
    if code not in recipe.languages:
        known = ", ".join(recipe.languages)
        message = f"{param.rstrip('s')} {code!r} is not supported by the model; it supports {known}"
        raise InvalidRequest(message, param=param)


def _language(request: TranscriptionRequest, recipe: TranscriptionRecipe) -> str | None:
    """Return the language that the request names, None to detect it."""
    if request.language is not None:
        return request.language
    return request.languages[0] if len(request.languages) == 1 and recipe.languages else None
