"""A text model of mlx-lm with mlx-vlm's encoders of images and audio.

MLX thread only.
"""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from mlxctl.engine.host.failures import FOREIGN_ERRORS
from mlxctl.engine.scheduling.multimodal_positions import (
    PromptSegment,
    prompt_segments,
    shift_at,
    three_axis_positions,
)
from mlxctl.engine.vision.encoders import FrameEncoder, ImageFeatures, VisionEncoder
from mlxctl.engine.vision.forward_context import ForwardContext, ForwardContextHolder
from mlxctl.engine.vision.layers import GivenStates, add_deep_features, use_three_axis_rope
from mlxctl.ir import ProcessedImage, VisionRecipe


def decoder_of(text_model: Any) -> Any:
    """Return the part of a text model that has its layers."""
    for path in (("language_model", "model"), ("model", "language_model"), ("model",), ("language_model",)):
        part = text_model
        for name in path:
            part = getattr(part, name, None)
        if hasattr(part, "embed_tokens"):
            return part
    raise ValueError("its text model has no embedding table in a known place")


class VisionLanguageModel:
    """A text model that also computes prompts with images and audio.

    Text is computed as the text model does, prompts with images or audio through `view`.
    """

    def __init__(
        self,
        text_model: Any,
        vision: VisionEncoder | None,
        audio: FrameEncoder | None = None,
        *,
        num_deep: int = 0,
    ) -> None:
        """Replace layers of `text_model` by ones that use a ForwardContext.

        The features of images have `num_deep` deep states. Raises ValueError for layers that cannot be
        replaced.
        """
        self._encoders = {False: vision, True: audio}
        self._text_model = text_model
        self._cell_size, self._axes = (1, []) if vision is None else _grid(vision.recipe)
        self._contexts = ForwardContextHolder()
        self.decoder = decoder_of(text_model)
        layers = self.decoder.layers
        self._takes_positions = getattr(text_model, "takes_positions", False)
        self.reads_tokens = getattr(text_model, "reads_tokens", False)
        self._frequencies = (
            use_three_axis_rope(layers, self._axes, self._contexts)
            if self._axes and not self._takes_positions
            else None
        )
        add_deep_features(layers, num_deep, self._contexts)
        for encoder in filter(None, self._encoders.values()):
            encoder.adapt(self._contexts)

    @property
    def text_model(self) -> Any:
        """The text model, with the layers that were replaced."""
        return self._text_model

    def __call__(self, token_ids: mx.array, *, cache: Any, shifts: mx.array | None = None) -> mx.array:
        """Return logits for token ids (rows, tokens); `shifts` (rows,) move positions."""
        more = {"shifts": shifts} if self._takes_positions else {}
        with self._contexts.on(ForwardContext(shifts=shifts)):
            logits: mx.array = self._text_model(token_ids, cache=cache, **more)
        return logits

    def make_cache(self) -> list[Any]:
        """Return empty caches; mlx-lm calls this."""
        from mlx_lm.models.cache import make_prompt_cache

        return list(make_prompt_cache(self._text_model))

    def takes(self, image: ProcessedImage) -> bool:
        """Whether it has an encoder for an image, or for audio."""
        return self._encoders[image.is_audio] is not None

    def encode(
        self, image: ProcessedImage, token_ids: mx.array
    ) -> tuple[ImageFeatures, list[Sequence[mx.array]]]:
        """Return the features of an image or audio, and the encoder's layers.

        `token_ids` (tokens,) are its tokens. The features have the embeddings' precision. They are not
        evaluated; the layers' states come before them.
        """
        encoder = self._encoders[image.is_audio]
        assert encoder is not None, "a prompt has only what its model takes"
        try:
            encoded = encoder.encode(image, token_ids)
        finally:
            # Also those of an image that failed: the next one must not depend on them.
            layers = [[states] for states in encoder.recorder.take()]
        kind = self.decoder.embed_tokens(token_ids[:1]).dtype
        features = ImageFeatures(
            encoded.states.astype(kind), tuple(states.astype(kind) for states in encoded.deep)
        )
        return features, [*layers, [features.states, *features.deep]]

    def view(self, token_ids: mx.array, images: Sequence[ProcessedImage]) -> "MultimodalPrompt":
        """Return a prompt (tokens,) with images and audio, ready for prefill."""
        return MultimodalPrompt(self, token_ids, images)

    def forward(
        self, token_ids: mx.array, features: ImageFeatures, context: ForwardContext, cache: Any
    ) -> None:
        """Build the pass over a slice (tokens,); `features` replace its token embeddings."""
        table = self.decoder.embed_tokens
        self.decoder.embed_tokens = GivenStates(table, features.states[None])
        try:
            with self._contexts.on(context):
                more = {"position_ids": context.positions} if self._takes_positions else {}
                self._text_model(token_ids[None], cache=cache, **more)
        finally:
            self.decoder.embed_tokens = table

    def context(
        self, images: Sequence[ProcessedImage], start: int, end: int, features: ImageFeatures
    ) -> ForwardContext:
        """Return the context of the pass over a slice."""
        parts = list(prompt_segments(images, start, end))
        deep, together = tuple(states[None] for states in features.deep), _together(parts)
        if self._takes_positions:
            # Without axes, cells of an image follow each other like words.
            grids = images if self._axes else ()
            positions = three_axis_positions(grids, start, end, cell_size=self._cell_size)
            return ForwardContext(positions=mx.array(positions)[:, None], deep=deep, together=together)
        if self._frequencies is None:
            return ForwardContext(deep=deep, together=together)
        if all(part.image is None for part in parts):
            return ForwardContext(shifts=mx.array([shift_at(images, start)]))
        positions = three_axis_positions(images, start, end, cell_size=self._cell_size)
        angles = mx.array(positions[self._axes].T).astype(mx.float32) * self._frequencies
        return ForwardContext(
            cosines=mx.cos(angles)[None, None], sines=mx.sin(angles)[None, None], deep=deep, together=together
        )


def _grid(recipe: VisionRecipe) -> tuple[int, list[int]]:
    return recipe.cell_size, list(recipe.axes)


class MultimodalPrompt:
    """The prefill of a prompt with images and audio.

    Both are called images here. An image is encoded when the first slice reaches it, and its features are
    held until its end. Images in a cached prefix are never encoded.
    """

    def __init__(
        self, model: VisionLanguageModel, token_ids: mx.array, images: Sequence[ProcessedImage]
    ) -> None:
        self._model = model
        self._token_ids = token_ids
        self._images = images
        self._encoded: dict[int, ImageFeatures] = {}
        self._encoder_layers: list[Sequence[mx.array]] = []

    def forward(self, start: int, end: int, cache: Any) -> list[Sequence[mx.array]]:
        """Build the pass over the slice; return the encoder's layers.

        These are evaluated first. Raises ValueError when an image cannot be encoded.
        """
        try:
            features = self.features(start, end)
            context = self._model.context(self._images, start, end, features)
            self._model.forward(self._token_ids[start:end], features, context, cache)
        except FOREIGN_ERRORS as error:
            # An error in mlx-vlm's code ends the request, not the engine.
            what = "audio" if all(image.is_audio for image in self._images) else "an image"
            raise ValueError(f"encoding {what} failed: {error or type(error).__name__}") from error
        for image in self._images:
            if image.end <= end:
                self._encoded.pop(image.start, None)
        layers, self._encoder_layers = self._encoder_layers, []
        return layers

    def features(self, start: int, end: int) -> ImageFeatures:
        """Return what replaces the token embeddings of the slice."""
        return _joined([self._part(part) for part in prompt_segments(self._images, start, end)])

    def _part(self, part: PromptSegment) -> ImageFeatures:
        if part.image is None:
            return ImageFeatures(self._model.decoder.embed_tokens(self._token_ids[part.start : part.end]))
        whole = self._encode(part.image)
        places = slice(part.start - part.image.start, part.end - part.image.start)
        return ImageFeatures(whole.states[places], tuple(states[places] for states in whole.deep))

    def _encode(self, image: ProcessedImage) -> ImageFeatures:
        if image.start not in self._encoded:
            token_ids = self._token_ids[image.start : image.end]
            self._encoded[image.start], layers = self._model.encode(image, token_ids)
            self._encoder_layers += layers
        return self._encoded[image.start]


def _joined(parts_features: Sequence[ImageFeatures]) -> ImageFeatures:
    num_deep = max(len(features.deep) for features in parts_features)
    deep = [features.deep or (mx.zeros_like(features.states),) * num_deep for features in parts_features]
    layers = tuple(mx.concatenate([states[place] for states in deep]) for place in range(num_deep))
    return ImageFeatures(mx.concatenate([features.states for features in parts_features]), layers)


def _together(parts: Sequence[PromptSegment]) -> mx.array | None:
    """Return which tokens attend to each other in both directions (tokens, tokens)."""
    if not any(part.image is not None and part.image.is_whole for part in parts):
        return None
    owners = np.concatenate([np.full(part.end - part.start, _owner(part)) for part in parts])
    return mx.array((owners[:, None] == owners[None]) & (owners >= 0))


def _owner(part: PromptSegment) -> int:
    return part.image.start if part.image is not None and part.image.is_whole else -1
