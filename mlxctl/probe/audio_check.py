"""Test of transcription with synthesized sentences.

A model that writes the same text for any audio fails.
"""

import asyncio
import re

from mlxctl.formats.adapters.media.audio_files import AudioFile
from mlxctl.ir import ModelCapabilities, ProbeVerdict
from mlxctl.ir.errors import InvalidRequest, NoVoice
from mlxctl.probe.interview import Interview
from mlxctl.probe.questions import SPOKEN_SENTENCES
from mlxctl.probe.speech_samples import NO_SYNTHESIZER, find_synthesizer
from mlxctl.state.stores import Finding

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")


async def check_transcription(interview: Interview, known: ModelCapabilities) -> tuple[Finding, ...]:  # noqa: ARG001
    """Transcribe every sentence; without a speech synthesizer the result is unknown."""
    synthesizer = find_synthesizer()
    if synthesizer is None:
        return (_unknown(NO_SYNTHESIZER),)
    try:
        audios = [AudioFile(await asyncio.to_thread(synthesizer, sentence)) for sentence in SPOKEN_SENTENCES]
    except (NoVoice, InvalidRequest) as error:
        return (_unknown(f"no speech could be synthesized: {error}"),)
    exchanges = [
        await interview.transcribe(audio, f"(spoken) {sentence}")
        for audio, sentence in zip(audios, SPOKEN_SENTENCES, strict=True)
    ]
    verdict, reason = judge([exchange.output for exchange in exchanges])
    seconds = round(sum(audio.seconds for audio in audios), 2)
    return (
        Finding(
            question="audio",
            verdict=verdict,
            reason=reason,
            value={"seconds": seconds},
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
