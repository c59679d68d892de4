"""A model of words from mlx-lm together with an eye from mlx-vlm: it reads prompts with images in slices.

MLX thread only.
"""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from mlxctl.engine.failures import FOREIGN_ERRORS
from mlxctl.engine.scheduling.multimodal_positions import (
    PromptSegment,
    prompt_segments,
    shift_at,
    three_axis_positions,
)
from mlxctl.engine.vision.encoders import ImageFeatures, VisionEncoder
from mlxctl.engine.vision.forward_context import ForwardContext, ForwardContextHolder
from mlxctl.engine.vision.layers import deepen, open_both_ways, turn_on_three_axes
from mlxctl.ir import ProcessedImage, VisionRecipe


class VisionLanguageModel:
    """Reads tokens as the model of words does, for rows that have seen images, too; and prompts with images
    by `view`.
    """

    def __init__(
        self, text_model: Any, words: Any, eye: VisionEncoder, recipe: VisionRecipe, *, num_deep: int
    ) -> None:
        """Change the layers of `text_model` so that they follow what is seen; `words` is the table that it
        reads by.

        `num_deep` is after how many layers the eye adds something. Raises ValueError for layers that cannot
        follow.
        """
        self.words = words
        self._encoder = eye
        self._text_model = text_model
        self._cell_size, self._axes = recipe.cell_size, list(recipe.axes)
        self._bearing = ForwardContextHolder()
        layers = text_model.language_model.model.layers
        self._frequencies = turn_on_three_axes(layers, recipe.axes, self._bearing) if recipe.axes else None
        deepen(layers, num_deep, self._bearing)
        if recipe.kind == "gemma":
            open_both_ways(layers, self._bearing)

    def __call__(self, token_ids: mx.array, *, cache: Any, shifts: mx.array | None = None) -> mx.array:
        """Return the logits after each token (rows, tokens); `shifts` (rows,) are added to their positions."""
        with self._bearing.on(ForwardContext(shifts=shifts)):
            logits: mx.array = self._text_model(token_ids, cache=cache)
        return logits

    def make_cache(self) -> list[Any]:
        """Return empty caches, as mlx-lm asks for them."""
        from mlx_lm.models.cache import make_prompt_cache

        return list(make_prompt_cache(self._text_model))

    def encode(self, image: ProcessedImage, token_ids: mx.array) -> ImageFeatures:
        """Return what is seen of a image, whose tokens are `token_ids` (tokens,), computed and as numbers of
        the words' kind.
        """
        seen = self._encoder(image, token_ids)
        kind = self.words(token_ids[:1]).dtype
        glance = ImageFeatures(seen.states.astype(kind), tuple(states.astype(kind) for states in seen.deep))
        mx.eval(glance.states, *glance.deep)
        return glance

    def view(self, token_ids: mx.array, images: Sequence[ProcessedImage]) -> "MultimodalPrompt":
        """Return a prompt (tokens,) with images, to be read."""
        return MultimodalPrompt(self, token_ids, images)

    def read(self, token_ids: mx.array, glance: ImageFeatures, context: ForwardContext, cache: Any) -> None:
        """Build the pass over a slice (tokens,) of one prompt, of which `glance` is read in place of the
        tokens.
        """
        with self._bearing.on(context):
            self._text_model(token_ids[None], cache=cache, input_embeddings=glance.states[None])

    def context(
        self, images: Sequence[ProcessedImage], start: int, end: int, glance: ImageFeatures
    ) -> ForwardContext:
        """Return the course of the pass over a slice."""
        parts = list(prompt_segments(images, start, end))
        deep, together = tuple(states[None] for states in glance.deep), _together(parts)
        if self._frequencies is None:
            return ForwardContext(deep=deep, together=together)
        if all(part.image is None for part in parts):
            return ForwardContext(shifts=mx.array([shift_at(images, start)]))
        positions = three_axis_positions(images, start, end, cell_size=self._cell_size)
        angles = mx.array(positions[self._axes].T).astype(mx.float32) * self._frequencies
        return ForwardContext(
            cosines=mx.cos(angles)[None, None], sines=mx.sin(angles)[None, None], deep=deep, together=together
        )


class MultimodalPrompt:
    """A prompt with images that is being read.

    A image is looked at when the first slice comes to it, and held until its end.

    So what is known of a prompt already is never looked at, and others have their turn between two images.
    """

    def __init__(
        self, model: VisionLanguageModel, token_ids: mx.array, images: Sequence[ProcessedImage]
    ) -> None:
        self._model = model
        self._token_ids = token_ids
        self._images = images
        self._glances: dict[int, ImageFeatures] = {}

    def read(self, start: int, end: int, cache: Any) -> None:
        """Build the pass over the slice.

        Raises ValueError when a image cannot be looked at, or not be read.
        """
        try:
            glance = self.glance(start, end)
            context = self._model.context(self._images, start, end, glance)
            self._model.read(self._token_ids[start:end], glance, context, cache)
        except FOREIGN_ERRORS as error:
            # A tower's own mistake ends its request, not the engine.
            raise ValueError(f"looking at a image failed: {error or type(error).__name__}") from error
        for image in self._images:
            if image.end <= end:
                self._glances.pop(image.start, None)

    def glance(self, start: int, end: int) -> ImageFeatures:
        """Return what is read in place of the tokens of the slice."""
        return _joined([self._part(part) for part in prompt_segments(self._images, start, end)])

    def _part(self, part: PromptSegment) -> ImageFeatures:
        if part.image is None:
            return ImageFeatures(self._model.words(self._token_ids[part.start : part.end]))
        whole = self._look(part.image)
        places = slice(part.start - part.image.start, part.end - part.image.start)
        return ImageFeatures(whole.states[places], tuple(states[places] for states in whole.deep))

    def _look(self, image: ProcessedImage) -> ImageFeatures:
        if image.start not in self._glances:
            self._glances[image.start] = self._model.encode(image, self._token_ids[image.start : image.end])
        return self._glances[image.start]


def _joined(glances: Sequence[ImageFeatures]) -> ImageFeatures:
    num_deep = max(len(glance.deep) for glance in glances)
    deep = [glance.deep or (mx.zeros_like(glance.states),) * num_deep for glance in glances]
    layers = tuple(mx.concatenate([states[place] for states in deep]) for place in range(num_deep))
    return ImageFeatures(mx.concatenate([glance.states for glance in glances]), layers)


def _together(parts: Sequence[PromptSegment]) -> mx.array | None:
    """Return which tokens of a slice attend to each other both ways (tokens, tokens), if any do."""
    if not any(part.image is not None and part.image.is_whole for part in parts):
        return None
    owners = np.concatenate([np.full(part.end - part.start, _owner(part)) for part in parts])
    return mx.array((owners[:, None] == owners[None]) & (owners >= 0))


def _owner(part: PromptSegment) -> int:
    return part.image.start if part.image is not None and part.image.is_whole else -1
