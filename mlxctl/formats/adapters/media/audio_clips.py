"""Audio of a prompt: decoding, and its tokens in place.

Slow: for workers.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mlxctl.formats.adapters.media.audio_decoders import find_decoder
from mlxctl.formats.adapters.prepared import PromptTokens
from mlxctl.formats.adapters.tokens.vocabulary import Vocabulary
from mlxctl.formats.audio.family import AudioFamily
from mlxctl.formats.audio.registry import AUDIO_FAMILIES
from mlxctl.ir import AudioPart, AudioRecipe, ModelFacts, ProcessedImage
from mlxctl.ir.audio_format import audio_media_type
from mlxctl.ir.errors import InvalidRequest
from mlxctl.ir.transcription import SAMPLE_BYTES, SAMPLE_RATE

MAX_CLIPS = 64
_MIN_SECONDS = 0.1
# Limit for the frames of a request's audio, which are sent to the engine in one message.
_MAX_BYTES = 256 * 1024 * 1024


def open_audio_placement(
    facts: ModelFacts, vocabulary: Vocabulary
) -> tuple["AudioPlacement | None", str | None]:
    """Return how the model places audio, or the reason why it cannot.

    Both are None for a model without an audio tower.
    """
    if facts.audio is None:
        return None, facts.audio_problem
    family = AUDIO_FAMILIES[facts.audio.family]
    missing = vocabulary.first_missing(facts.audio.audio_token_id, family.tokens)
    if missing is not None:
        return None, f"its tokenizer has no token {missing} for audio"
    return AudioPlacement(facts.audio, family, vocabulary), None


class AudioPlacement:
    """Inserts audio into a prompt; `placeholder` marks a clip in a message.

    Thread-safe.
    """

    def __init__(self, recipe: AudioRecipe, family: AudioFamily, vocabulary: Vocabulary) -> None:
        self._recipe = recipe
        self._family = family
        self._vocabulary = vocabulary
        cell = vocabulary.added[recipe.audio_token_id].text
        self.placeholder = family.shown.format(cell)
        self._read = family.read.format(cell)

    def frame(self, text: str) -> str:
        """Replace each placeholder by one cell between its frame tokens."""
        return text.replace(self.placeholder, self._read)

    def insert(self, prompt: PromptTokens, clips: Sequence[AudioPart]) -> PromptTokens:
        """Replace each cell by the tokens of its clip.

        Raises InvalidRequest for data that is no audio, and for too much of it.
        """
        if len(clips) > MAX_CLIPS:
            message = f"there are {len(clips)} audio clips; a request may have {MAX_CLIPS}"
            raise InvalidRequest(message, param="messages")
        num_cells = prompt.token_ids.count(self._recipe.audio_token_id)
        if num_cells != len(clips):
            raise InvalidRequest(
                f"the chat template shows {num_cells} of {len(clips)} audio clips", param="messages"
            )
        written: list[int] = []
        placed: list[ProcessedImage] = []
        images, num_bytes = list(prompt.images), 0
        for index, token_id in enumerate(prompt.token_ids):
            if images and images[0].start == index:
                placed.append(replace(images.pop(0), start=len(written)))
            if token_id != self._recipe.audio_token_id:
                written.append(token_id)
                continue
            clip = clips[sum(each.is_audio for each in placed)]
            cells, audio = self._cut(clip, start=len(written))
            written += cells
            placed.append(audio)
            num_bytes += len(audio.pixels)
            if num_bytes > _MAX_BYTES:
                raise InvalidRequest("the audio clips are too long together; send less", param=clip.param)
        return PromptTokens(token_ids=tuple(written), images=tuple(placed))

    def _cut(self, clip: AudioPart, *, start: int) -> tuple[list[int], ProcessedImage]:
        cut = self._family.cut(decode_clip(clip, max_seconds=self._family.max_seconds), self._recipe)
        cells: list[int] = []
        for piece in cut.layout:
            cells += (
                [self._recipe.audio_token_id] * piece
                if isinstance(piece, int)
                else self._vocabulary.encode_inside(piece)
            )
        audio = ProcessedImage.of(
            cut.features.astype("<f4").tobytes(),
            tiles=(cut.features.shape,),
            start=start,
            num_tokens=len(cells),
            num_positions=len(cells),
            is_audio=True,
        )
        return cells, audio


def decode_clip(clip: AudioPart, *, max_seconds: int) -> Any:
    """Return 16 kHz mono samples from -1 to 1, float32.

    Raises InvalidRequest for what is no audio, is of another kind than the request says, and for audio that
    is too short or too long.
    """
    import numpy as np

    found = audio_media_type(clip.data)
    if found not in (None, clip.media_type):
        message = f"the audio in {clip.param} is {found}, but the request says {clip.media_type}"
        raise InvalidRequest(message, param=clip.param)
    pieces: list[bytes] = []
    num_samples = 0
    try:
        for piece in find_decoder(clip.data, max_seconds=max_seconds)(clip.data):
            pieces.append(piece)
            num_samples += len(piece) // SAMPLE_BYTES
            if num_samples > max_seconds * SAMPLE_RATE:
                break
    except InvalidRequest as error:
        raise InvalidRequest(f"the audio in {clip.param}: {error}", param=clip.param) from error
    if num_samples > max_seconds * SAMPLE_RATE:
        message = f"the audio in {clip.param} is longer than the {max_seconds} seconds that this model hears"
        raise InvalidRequest(f"{message}; send it in parts", param=clip.param)
    if num_samples < _MIN_SECONDS * SAMPLE_RATE:
        message = (
            f"the audio in {clip.param} has {num_samples / SAMPLE_RATE:.2f} seconds; "
            f"at least {_MIN_SECONDS} are needed"
        )
        raise InvalidRequest(message, param=clip.param)
    return np.frombuffer(b"".join(pieces), np.int16).astype(np.float32) / 32768
