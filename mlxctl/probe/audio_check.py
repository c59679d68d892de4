"""Test of transcription, and of audio input, with synthesized sentences.

A model that writes the same text for any audio fails.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable

from mlxctl.formats.adapters.media.audio_files import AudioFile
from mlxctl.ir import (
    AudioPart,
    GenerationRequest,
    Message,
    ModelCapabilities,
    ProbeVerdict,
    TextPart,
    ThinkingOptions,
)
from mlxctl.ir.errors import InvalidRequest, NoVoice
from mlxctl.probe.interview import GREEDY, Interview
from mlxctl.probe.questions import SPOKEN_QUESTION, SPOKEN_SENTENCES
from mlxctl.probe.speech_samples import NO_SYNTHESIZER, find_synthesizer
from mlxctl.state.stores import Exchange, Finding

_MAX_TOKENS = 256
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")


async def check_transcription(interview: Interview, known: ModelCapabilities) -> tuple[Finding, ...]:  # noqa: ARG001
    """Transcribe every sentence; without a speech synthesizer the result is unknown."""
    return await _heard(lambda file, spoken: interview.transcribe(AudioFile(file), spoken))


async def check_audio_input(interview: Interview, known: ModelCapabilities) -> tuple[Finding, ...]:
    """Ask a language model for the words of every sentence."""
    adapter = interview.adapter(known)

    async def ask(file: bytes, _: str) -> Exchange:
        request = GenerationRequest(
            model=interview.model,
            messages=(
                Message(
                    role="user",
                    parts=(AudioPart(data=file, media_type="audio/wav"), TextPart(text=SPOKEN_QUESTION)),
                ),
            ),
            sampling=GREEDY,
            thinking=ThinkingOptions(enabled=False),
            max_tokens=_MAX_TOKENS,
        )
        return (await interview.ask(adapter, request)).evidence()

    return await _heard(ask)


async def _heard(hear: Callable[[bytes, str], Awaitable[Exchange]]) -> tuple[Finding, ...]:
    """Return the finding on what a model hears in the sentences."""
    synthesizer = find_synthesizer()
    if synthesizer is None:
        return (_unknown(NO_SYNTHESIZER),)
    try:
        files = [await asyncio.to_thread(synthesizer, sentence) for sentence in SPOKEN_SENTENCES]
        seconds = sum(AudioFile(file).seconds for file in files)
    except (NoVoice, InvalidRequest) as error:
        return (_unknown(f"no speech could be synthesized: {error}"),)
    exchanges = [
        await hear(file, f"(spoken) {sentence}")
        for file, sentence in zip(files, SPOKEN_SENTENCES, strict=True)
    ]
    verdict, reason = judge([exchange.output for exchange in exchanges])
    return (
        Finding(
            question="audio",
            verdict=verdict,
            reason=reason,
            value={"seconds": round(seconds, 2)},
            exchanges=tuple(exchanges),
        ),
    )


def judge(texts: list[str]) -> tuple[ProbeVerdict, str]:
    """Return the verdict for the transcriptions of the sentences, in order.

    A transcription is right with at least half of the sentence's words, and more of them than of the words of
    the other sentences: formant synthesis is not always understood to the last word.
    """
    num_right = sum(_is_correct(words_of(text), index) for index, text in enumerate(texts))
    # A constant text is right once at most; more often means that audio was recognized.
    verdict: ProbeVerdict = (
        "yes" if num_right == len(SPOKEN_SENTENCES) else "unknown" if num_right > 1 else "no"
    )
    return verdict, f"transcribed {num_right} recordings of {len(SPOKEN_SENTENCES)}"


def words_of(text: str) -> set[str]:
    """Return the words without punctuation, in lower case."""
    return set(_WORD.findall(text.casefold()))


def _is_correct(words: set[str], index: int) -> bool:
    expected = words_of(SPOKEN_SENTENCES[index])
    others = set().union(*(words_of(sentence) for sentence in SPOKEN_SENTENCES)) - expected
    return 2 * len(words & expected) >= len(expected) and len(words & expected) > len(words & others)


def _unknown(reason: str) -> Finding:
    return Finding(question="audio", verdict="unknown", reason=reason, has_failed=True)
