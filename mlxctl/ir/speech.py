"""Speech requests, answers and recipes: text to audio. Pure values.

Samples are always mono float32 between -1 and 1, little-endian.
"""

from typing import Literal

import msgspec

FLOAT_BYTES = 4
"""Bytes of a sample."""

QWEN3_TTS_MAX_FRAMES = 1000
"""Most frames of 80 ms of one piece of text: a piece of 300 characters has about 250."""

VOXTRAL_TTS_MAX_FRAMES = 1000
"""As QWEN3_TTS_MAX_FRAMES."""

KOKORO_MAX_FRAMES = 3200
"""Most frames of 25 ms of one piece of text."""


class SpeechRecipe(msgspec.Struct, frozen=True, kw_only=True):
    """What a speech model can do, by its files.

    `family` selects the code that runs it. `voices` are names that a request can give, empty for a model with
    one voice or with none of its own; `default_voice` is that of requests without one. `languages` are the
    names that the model has for them, empty where it does not distinguish any. It `clones_voices` from a
    recording, and `follows_instructions` on how to speak. A model without a voice `requires` a recording or a
    description of one. It `takes_speed`, and may be `latin_only`: it reads no other letters. A request takes
    at most `request_bytes` beside the weights.
    """

    family: str
    sample_rate: int
    voices: list[str] = []
    default_voice: str | None = None
    languages: list[str] = []
    clones_voices: bool = False
    follows_instructions: bool = False
    takes_speed: bool = False
    latin_only: bool = False
    requires: Literal["reference", "instructions"] | None = None
    request_bytes: int = 0


class ReferenceAudio(msgspec.Struct, frozen=True, kw_only=True):
    """A recording of a voice, and the `text` spoken in it."""

    samples: bytes
    sample_rate: int
    text: str


class SpeechRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A text to speak.

    `instructions` say how to speak. A `language` is one of the recipe's. The same `seed` gives the same
    samples; None draws one.
    """

    model: str
    text: str
    voice: str | None = None
    instructions: str | None = None
    language: str | None = None
    speed: float = 1.0
    seed: int | None = None
    reference: ReferenceAudio | None = None


class SpeechChunk(msgspec.Struct, frozen=True, kw_only=True):
    """The next samples of an answer.

    The numbers of tokens are those since the previous chunk. The last chunk of an answer `is_last`; its
    samples may be empty.
    """

    samples: bytes
    sample_rate: int
    num_text_tokens: int = 0
    num_audio_tokens: int = 0
    is_last: bool = False
