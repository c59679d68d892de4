"""A sound file window by window: what looks wrong is written again, and what was written is told to the next
window.

The windows' texts are laid down here, because which of a model's own look wrong is not for a test to choose.
"""

import asyncio

import pytest

from mlxctl.adapters import create_adapter
from mlxctl.engine import AudioWindow, TranscribedWindow
from mlxctl.errors import InvalidRequest
from mlxctl.inference.models.lease import Lease
from mlxctl.inference.preparation import PreparationPool
from mlxctl.inference.request_log import RequestLog
from mlxctl.inference.transcription.transcriber import transcribe
from mlxctl.ir import ModelCapabilities, SpeechTask, TranscriptionRequest, TranscriptionResult
from mlxctl.models import read_model
from tests import tiny_models

ADAPTER = create_adapter(read_model(tiny_models.trained("whisper_words")), name="whisper_words")
assert ADAPTER.facts.transcription is not None
RECIPE = ADAPTER.facts.transcription
WORD = next(iter(ADAPTER.vocabulary.encode("garden")))


class ScriptedEngine:
    def __init__(self, *answers: TranscribedWindow) -> None:
        self.answers = list(answers)
        self.asked: list[AudioWindow] = []

    async def transcribe(self, window: AudioWindow, *, request_id: str = "") -> TranscribedWindow:
        self.asked.append(window)
        return self.answers.pop(0)


def wrote(*words: int, logprob: float = -0.1, no_speech: float = 0.0) -> TranscribedWindow:
    ids = [RECIPE.first_time, *words, RECIPE.first_time + 25]
    return TranscribedWindow(
        token_ids=ids, language_id=RECIPE.languages["en"], mean_logprob=logprob, no_speech=no_speech
    )


def run(
    engine: ScriptedEngine, *, num_windows: int = 1, task: SpeechTask = "transcribe", prompt: str = ""
) -> TranscriptionResult:
    request = TranscriptionRequest(
        model="whisper_words",
        num_samples=num_windows * RECIPE.window_samples,
        read_window=lambda _, num_samples: bytes(2 * num_samples),
        task=task,
        prompt=prompt,
    )
    return asyncio.run(written(request, engine))


async def written(request: TranscriptionRequest, engine: ScriptedEngine) -> TranscriptionResult:
    preparation = PreparationPool()
    try:
        if request.prompt:
            await preparation.load("whisper_words", ADAPTER.facts, ModelCapabilities())
        return await transcribe(
            request,
            engine=engine,  # type: ignore[arg-type]
            preparation=preparation,
            adapter=ADAPTER,
            lease=Lease("whisper_words", lambda *_: None),
            log=RequestLog(),
        )
    finally:
        await preparation.close()


def test_an_unlikely_window_is_written_again_hotter_and_what_it_says_is_told_to_the_next() -> None:
    engine = ScriptedEngine(wrote(WORD, logprob=-2), wrote(WORD), wrote(WORD))
    result = run(engine, num_windows=2)
    assert [window.temperature for window in engine.asked] == [0.0, 0.2, 0.0]
    assert [window.previous_ids for window in engine.asked] == [[], [], [WORD]]
    assert [segment.temperature for segment in result.segments] == [0.2, 0.0]


def test_a_window_that_repeats_itself_is_written_again() -> None:
    engine = ScriptedEngine(wrote(*[WORD] * 60), wrote(WORD))
    assert run(engine).segments[0].token_ids == (WORD,)
    assert [window.temperature for window in engine.asked] == [0.0, 0.2]


def test_the_last_temperature_counts_whatever_it_gives_and_is_not_told_again() -> None:
    engine = ScriptedEngine(*[wrote(WORD, logprob=-2)] * 6, wrote(WORD))
    result = run(engine, num_windows=2)
    assert [window.temperature for window in engine.asked] == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 0.0]
    assert engine.asked[-1].previous_ids == []
    assert len(result.segments) == 2


def test_silence_is_no_segment_and_the_next_window_follows() -> None:
    engine = ScriptedEngine(wrote(WORD, logprob=-2, no_speech=0.9), wrote(WORD))
    (segment,) = run(engine, num_windows=2).segments
    assert segment.seek == RECIPE.window_samples
    assert [window.temperature for window in engine.asked] == [0.0, 0.0]


def test_task_and_prompt_reach_the_model() -> None:
    engine = ScriptedEngine(wrote(WORD))
    run(engine, task="translate", prompt="garden")
    assert (engine.asked[0].task, len(engine.asked[0].previous_ids) > 0) == ("translate", True)


def test_a_language_that_the_model_does_not_know_is_refused() -> None:
    request = TranscriptionRequest(
        model="whisper_words", num_samples=1, read_window=lambda *_: b"", language="tlh"
    )
    with pytest.raises(InvalidRequest, match="it knows en") as refused:
        asyncio.run(written(request, ScriptedEngine()))
    assert refused.value.param == "language"
