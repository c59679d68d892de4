"""Encoders: images and audio to features, with mlx-vlm's towers. MLX thread only."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from mlxctl.engine.vision.forward_context import ForwardContextHolder
from mlxctl.ir import AudioRecipe, ProcessedImage, VisionRecipe


@dataclass(frozen=True, slots=True)
class ImageFeatures:
    """The features of an image: `states` (tokens, width) replace token embeddings.

    `deep` are added to the states after the first layers.
    """

    states: mx.array
    deep: tuple[mx.array, ...] = ()


class LayerRecorder:
    """Holds what the layers of an encoder return, until it is taken."""

    def __init__(self, stacks: Sequence[list[Any]]) -> None:
        """Replace the layers of each stack by ones that record."""
        self._states: list[Any] = []
        for layers in stacks:
            layers[:] = [_RecordedLayer(layer, self._states) for layer in layers]

    def take(self) -> list[Any]:
        """Return the states after each layer since the last call."""
        states = self._states.copy()
        self._states.clear()
        return states


class _RecordedLayer(nn.Module):  # type: ignore[misc]
    def __init__(self, layer: Any, states: list[Any]) -> None:
        super().__init__()
        self.layer = layer
        self._states = states

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        states = self.layer(*inputs, **options)
        self._states.append(states)
        return states


class MediaEncoder(ABC):
    """Encodes images or audio; the base of all families.

    `model` is mlx-vlm's, without its text layers. `recorder` has the layers on which the last result depends.
    """

    def __init__(self, model: Any, recipe: VisionRecipe | AudioRecipe, decoder: Any) -> None:
        """`decoder` is the part of the text model that has its layers."""
        self.model = model
        self.recipe = recipe
        self.decoder = decoder
        self.recorder = LayerRecorder(self.stacks())

    @abstractmethod
    def stacks(self) -> Sequence[list[Any]]:
        """Return the layers of the tower, to be evaluated one by one."""

    @abstractmethod
    def encode(self, image: ProcessedImage, token_ids: mx.array) -> ImageFeatures:
        """Return the features of an image or audio.

        `token_ids` (tokens,) are its tokens. The result is lazy.
        """

    def in_cells(self, states: mx.array, token_ids: mx.array) -> mx.array:
        """Put features in the place of cells.

        Tokens between cells keep their embeddings. Raises ValueError if there are not as many features.
        """
        is_cell = np.isin(np.array(token_ids), self.recipe.cell_token_ids)
        if states.shape[0] != is_cell.sum():
            raise ValueError(f"there are {states.shape[0]} features and {is_cell.sum()} cells")
        if is_cell.all():
            return states
        return mx.where(
            mx.array(is_cell)[:, None],
            states[mx.array(np.maximum(np.cumsum(is_cell) - 1, 0))],
            self.embeddings(token_ids),
        )

    def embeddings(self, token_ids: mx.array) -> mx.array:
        """Return the embeddings of the tokens between cells."""
        embedded: mx.array = self.decoder.embed_tokens(token_ids)
        return embedded

    def adapt(self, contexts: ForwardContextHolder) -> None:  # noqa: B027 -- most families change nothing
        """Change the decoder's layers to what images or audio need."""


class VisionEncoder(MediaEncoder):
    """Encodes images."""

    recipe: VisionRecipe


class TileEncoder(VisionEncoder):
    """Encodes images as pictures of normalized colors."""

    def encode(self, image: ProcessedImage, token_ids: mx.array) -> ImageFeatures:
        """Return the features of an image."""
        states = self.features(colors_of(image, self.recipe)).astype(
            self.decoder.embed_tokens(token_ids[:1]).dtype
        )
        return ImageFeatures(self.in_cells(states, token_ids))

    @abstractmethod
    def features(self, tiles: Sequence[mx.array]) -> mx.array:
        """Return the features of the cells (cells, width) of an image.

        `tiles` are the normalized colors (height, width, 3) of its pictures, float32.
        """


class FrameEncoder(MediaEncoder):
    """Encodes audio as frames."""

    recipe: AudioRecipe

    def encode(self, image: ProcessedImage, token_ids: mx.array) -> ImageFeatures:
        """Return the features of audio."""
        frames = np.frombuffer(image.pixels, dtype="<f4").reshape(image.tiles[0])
        num_cells = int((np.array(token_ids) == self.recipe.audio_token_id).sum())
        states = self.features(mx.array(frames), num_cells).astype(
            self.decoder.embed_tokens(token_ids[:1]).dtype
        )
        return ImageFeatures(self.in_cells(states, token_ids))

    @abstractmethod
    def features(self, frames: mx.array, num_cells: int) -> mx.array:
        """Return the features of the cells (cells, width).

        `frames` (frames, numbers) are float32.
        """


def create_encoders(
    vision: VisionRecipe | None, audio: AudioRecipe | None, model: Any, decoder: Any
) -> tuple[VisionEncoder | None, FrameEncoder | None]:
    """Return the encoders of mlx-vlm's `model`."""
    return (
        None if vision is None else _family(vision.family).Encoder(model, vision, decoder),
        None if audio is None else _family(audio.family).AudioEncoder(model, audio, decoder),
    )


def _family(name: str) -> Any:
    return import_module(f"mlxctl.engine.vision.families.{name}")


def colors_of(image: ProcessedImage, recipe: VisionRecipe) -> list[mx.array]:
    """Return the normalized colors (height, width, 3) of each tile as float32."""
    pixels = np.frombuffer(image.pixels, dtype=np.uint8)
    ends = np.cumsum([3 * height * width for height, width in image.tiles])
    mean, deviation = mx.array(recipe.mean), mx.array(recipe.deviation)
    return [
        (mx.array(part.reshape(height, width, 3)).astype(mx.float32) / 255 - mean) / deviation
        for part, (height, width) in zip(np.split(pixels, ends[:-1]), image.tiles, strict=True)
    ]


def patches_of(colors: mx.array, size: int) -> mx.array:
    """Return patches, row by row.

    (height, width, 3) to (patches, 3, size, size).
    """
    rows, columns = colors.shape[0] // size, colors.shape[1] // size
    patches = colors.reshape(rows, size, columns, size, 3).transpose(0, 2, 4, 1, 3)
    return patches.reshape(rows * columns, 3, size, size)
