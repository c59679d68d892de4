"""Test of speech: length, loudness and words of spoken sentences.

A model that says the same for any text fails, and one whose sounds are too short, too long or silent. Words
are heard by a transcription model of the library, if there is one.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

from mlxctl.engine import Speak
from mlxctl.ir import ModelCapabilities, ProbeVerdict
from mlxctl.probe.audio_check import words_of
from mlxctl.probe.interview import Interview
from mlxctl.probe.questions import SPOKEN_SENTENCES
from mlxctl.state.stores import Exchange, Finding

_SENTENCES = SPOKEN_SENTENCES[:2]
_DESCRIPTION = "A calm voice of an adult, at a usual speed."
_SEED = 1
# Wide limits: people speak 8 to 20 characters in a second.
_CHARS_PER_SECOND = (2.0, 40.0)
# RMS of full scale; speech usually has -30 to -15 dB.
_LEAST_LOUDNESS = -50.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A spoken sentence.

    `samples` are float32, little-endian. `loudness` is the RMS in decibels of full scale. `heard` is what a
    transcription model hears, None without one.
    """

    sentence: str
    samples: bytes
    seconds: float
    loudness: float
    computing_seconds: float
    heard: str | None = None

    @property
    def is_understood(self) -> bool:
        """Whether at least half of the words are heard."""
        words = words_of(self.sentence)
        return self.heard is not None and 2 * len(words & words_of(self.heard)) >= len(words)

    @property
    def problem(self) -> str | None:
        """Why it cannot be speech of the sentence."""
        slowest, fastest = _CHARS_PER_SECOND
        if not len(self.sentence) / fastest <= self.seconds <= len(self.sentence) / slowest:
            return f"it has {self.seconds:.2f} s for {len(self.sentence)} characters"
        if self.loudness < _LEAST_LOUDNESS:
            return f"it has {self.loudness:.0f} dB, which is silence"
        return None


async def check_speech(interview: Interview, known: ModelCapabilities) -> tuple[Finding, ...]:  # noqa: ARG001
    """Speak two sentences, each in two voices if the model has them."""
    recipe = interview.facts.speech
    assert recipe is not None, "only speech models are asked to speak"
    if recipe.requires == "reference":
        reason = "it has no voices of its own, and probing has no recording of one"
        return (Finding(question="audio", verdict="unknown", reason=reason),)
    instructions = _DESCRIPTION if recipe.requires == "instructions" else None
    voices: Sequence[str | None] = recipe.voices[:2] or [None]
    recordings, exchanges = [], []
    for sentence, voice in product(_SENTENCES, voices):
        command = partial(
            Speak, model=interview.model, text=sentence, seed=_SEED, voice=voice, instructions=instructions
        )
        started = time.monotonic()
        samples, num_tokens = await interview.speak(command)
        recording = record(sentence, samples, recipe.sample_rate, time.monotonic() - started)
        if recording.problem is None:
            recording = replace(recording, heard=await interview.hear(samples, recipe.sample_rate))
        recordings.append(recording)
        heard = "" if recording.heard is None else f", heard as {recording.heard!r}"
        exchanges.append(
            Exchange(
                prompt=sentence if voice is None else f"({voice}) {sentence}",
                output=f"{recording.seconds:.2f} s of sound, {recording.loudness:.1f} dB{heard}",
                num_tokens=num_tokens,
                duration_seconds=round(recording.computing_seconds, 3),
            )
        )
    verdict, reason = judge(recordings)
    seconds = sum(recording.seconds for recording in recordings)
    factor = sum(recording.computing_seconds for recording in recordings) / seconds if seconds else 0.0
    return (
        Finding(
            question="audio",
            verdict=verdict,
            reason=reason,
            value={
                "supports_tts": verdict == "yes",
                "voices": recipe.voices,
                "sample_rate": recipe.sample_rate,
                "real_time_factor": round(factor, 3),
            },
            exchanges=tuple(exchanges),
        ),
    )


def record(sentence: str, samples: bytes, sample_rate: int, computing_seconds: float) -> Recording:
    """Measure the samples of a sentence."""
    import numpy as np

    values: Any = np.frombuffer(samples, "<f4")
    power = float((values.astype(np.float64) ** 2).mean()) if len(values) else 0.0
    return Recording(
        sentence=sentence,
        samples=samples,
        seconds=len(values) / sample_rate,
        loudness=float(10 * np.log10(power)) if power else float("-inf"),
        computing_seconds=computing_seconds,
    )


def judge(recordings: Sequence[Recording]) -> tuple[ProbeVerdict, str]:
    """Return the verdict for the recordings.

    No two are of one sentence in one voice.
    """
    for recording in recordings:
        if (problem := recording.problem) is not None:
            return "no", f"a recording of {recording.sentence!r} is no speech: {problem}"
    if len({recording.samples for recording in recordings}) < len(recordings):
        return "no", "two of its recordings are the same"
    spoke = f"it spoke {len(recordings)} recordings of plausible length and loudness"
    if all(recording.heard is None for recording in recordings):
        return "yes", f"{spoke}; words are not checked: the library has no transcription model"
    num_understood = sum(recording.is_understood for recording in recordings)
    verdict: ProbeVerdict = "yes" if 2 * num_understood >= len(recordings) else "no"
    return verdict, f"{spoke}; {num_understood} of them are understood by a transcription model"
