"""Whether a model hears: a voice says sentences, and the model has to write each.

Who writes the same whatever is said does not.
"""

import asyncio
import re

from mlxctl.adapters.media.audio_files import AudioFile
from mlxctl.errors import InvalidRequest, NoVoice
from mlxctl.ir import ModelCapabilities, ProbeVerdict
from mlxctl.probe.interview import Interview
from mlxctl.probe.questions import SPOKEN
from mlxctl.probe.speech_samples import NO_VOICE, find_voice
from mlxctl.stores import Finding

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")


async def check_hearing(interview: Interview, known: ModelCapabilities) -> tuple[Finding, ...]:  # noqa: ARG001
    """Have every sentence said and written. Without a voice nothing is known."""
    voice = find_voice()
    if voice is None:
        return (_unknown(NO_VOICE),)
    try:
        sounds = [AudioFile(await asyncio.to_thread(voice, sentence)) for sentence in SPOKEN]
    except (NoVoice, InvalidRequest) as error:
        return (_unknown(f"nothing could be said to it: {error}"),)
    heard = [
        await interview.hear(sound, f"(spoken) {sentence}")
        for sound, sentence in zip(sounds, SPOKEN, strict=True)
    ]
    verdict, reason = judge([exchange.output for exchange in heard])
    seconds = round(sum(sound.seconds for sound in sounds), 2)
    return (
        Finding(
            question="audio",
            verdict=verdict,
            reason=reason,
            value={"seconds": seconds},
            exchanges=tuple(heard),
        ),
    )


def judge(texts: list[str]) -> tuple[ProbeVerdict, str]:
    """Say what follows from what was written of the sentences, in their order.

    A sentence counts when at least half of its words are there, and more of them than of those of the others:
    a voice made of formulas is not always understood to the last word.
    """
    num_right = sum(_is_right(words_of(text), place) for place, text in enumerate(texts))
    # Who writes the same whatever is said is right once at most; who is right more often heard something.
    verdict: ProbeVerdict = "yes" if num_right == len(SPOKEN) else "unknown" if num_right > 1 else "no"
    return verdict, f"wrote what was said in {num_right} recordings of {len(SPOKEN)}"


def words_of(text: str) -> set[str]:
    """Return the words, whatever stands around them."""
    return set(_WORD.findall(text.casefold()))


def _is_right(written: set[str], place: int) -> bool:
    said = words_of(SPOKEN[place])
    others = set().union(*(words_of(sentence) for sentence in SPOKEN)) - said
    return 2 * len(written & said) >= len(said) and len(written & said) > len(written & others)


def _unknown(reason: str) -> Finding:
    return Finding(question="audio", verdict="unknown", reason=reason, has_failed=True)
