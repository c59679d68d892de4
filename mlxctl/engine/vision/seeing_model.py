"""A model of words from mlx-lm together with an eye from mlx-vlm: it reads prompts with pictures in slices. MLX thread only."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from mlxctl.engine.foreign import FOREIGN_ERRORS
from mlxctl.engine.vision.bearing import Bearing, Course
from mlxctl.engine.vision.eyes import Eye, Glance
from mlxctl.engine.vision.layers import deepen, open_both_ways, turn_on_three_axes
from mlxctl.engine.vision.positions import Stretch, shift_at, stretches, three_axis_positions
from mlxctl.ir import Picture, SightRecipe


class SeeingModel:
    """Reads tokens as the model of words does, for rows that have seen pictures, too; and prompts with pictures by `view`."""

    def __init__(self, text_model: Any, words: Any, eye: Eye, recipe: SightRecipe, *, num_deep: int) -> None:
        """Change the layers of `text_model` so that they follow what is seen; `words` is the table that it reads by.

        `num_deep` is after how many layers the eye adds something. Raises ValueError for layers that cannot follow.
        """
        self.words = words
        self._eye = eye
        self._text_model = text_model
        self._cell_size, self._axes = recipe.cell_size, list(recipe.axes)
        self._bearing = Bearing()
        layers = text_model.language_model.model.layers
        self._frequencies = turn_on_three_axes(layers, recipe.axes, self._bearing) if recipe.axes else None
        deepen(layers, num_deep, self._bearing)
        if recipe.kind == "gemma":
            open_both_ways(layers, self._bearing)

    def __call__(self, token_ids: mx.array, *, cache: Any, shifts: mx.array | None = None) -> mx.array:
        """Return the logits after each token (rows, tokens); `shifts` (rows,) are added to their positions."""
        with self._bearing.on(Course(shifts=shifts)):
            logits: mx.array = self._text_model(token_ids, cache=cache)
        return logits

    def make_cache(self) -> list[Any]:
        """Return empty caches, as mlx-lm asks for them."""
        from mlx_lm.models.cache import make_prompt_cache

        return list(make_prompt_cache(self._text_model))

    def look(self, picture: Picture, token_ids: mx.array) -> Glance:
        """Return what is seen of a picture, whose tokens are `token_ids` (tokens,), computed and as numbers of the words' kind."""
        seen = self._eye(picture, token_ids)
        kind = self.words(token_ids[:1]).dtype
        glance = Glance(seen.states.astype(kind), tuple(states.astype(kind) for states in seen.deep))
        mx.eval(glance.states, *glance.deep)
        return glance

    def view(self, token_ids: mx.array, pictures: Sequence[Picture]) -> "View":
        """Return a prompt (tokens,) with pictures, to be read."""
        return View(self, token_ids, pictures)

    def read(self, token_ids: mx.array, glance: Glance, course: Course, cache: Any) -> None:
        """Build the pass over a slice (tokens,) of one prompt, of which `glance` is read in place of the tokens."""
        with self._bearing.on(course):
            self._text_model(token_ids[None], cache=cache, input_embeddings=glance.states[None])

    def course(self, pictures: Sequence[Picture], start: int, end: int, glance: Glance) -> Course:
        """Return the course of the pass over a slice."""
        parts = list(stretches(pictures, start, end))
        deep, together = tuple(states[None] for states in glance.deep), _together(parts)
        if self._frequencies is None:
            return Course(deep=deep, together=together)
        if all(part.picture is None for part in parts):
            return Course(shifts=mx.array([shift_at(pictures, start)]))
        positions = three_axis_positions(pictures, start, end, cell_size=self._cell_size)
        angles = mx.array(positions[self._axes].T).astype(mx.float32) * self._frequencies
        return Course(cosines=mx.cos(angles)[None, None], sines=mx.sin(angles)[None, None], deep=deep, together=together)


class View:
    """A prompt with pictures that is being read. A picture is looked at when the first slice comes to it, and held until its end.

    So what is known of a prompt already is never looked at, and others have their turn between two pictures.
    """

    def __init__(self, model: SeeingModel, token_ids: mx.array, pictures: Sequence[Picture]) -> None:
        self._model = model
        self._token_ids = token_ids
        self._pictures = pictures
        self._glances: dict[int, Glance] = {}

    def read(self, start: int, end: int, cache: Any) -> None:
        """Build the pass over the slice. Raises ValueError when a picture cannot be looked at, or not be read."""
        try:
            glance = self.glance(start, end)
            course = self._model.course(self._pictures, start, end, glance)
            self._model.read(self._token_ids[start:end], glance, course, cache)
        except FOREIGN_ERRORS as error:
            # A tower's own mistake ends its request, not the engine.
            raise ValueError(f"looking at a picture failed: {error or type(error).__name__}") from error
        for picture in self._pictures:
            if picture.end <= end:
                self._glances.pop(picture.start, None)

    def glance(self, start: int, end: int) -> Glance:
        """Return what is read in place of the tokens of the slice."""
        return _joined([self._part(part) for part in stretches(self._pictures, start, end)])

    def _part(self, part: Stretch) -> Glance:
        if part.picture is None:
            return Glance(self._model.words(self._token_ids[part.start : part.end]))
        whole = self._look(part.picture)
        places = slice(part.start - part.picture.start, part.end - part.picture.start)
        return Glance(whole.states[places], tuple(states[places] for states in whole.deep))

    def _look(self, picture: Picture) -> Glance:
        if picture.start not in self._glances:
            self._glances[picture.start] = self._model.look(picture, self._token_ids[picture.start : picture.end])
        return self._glances[picture.start]


def _joined(glances: Sequence[Glance]) -> Glance:
    num_deep = max(len(glance.deep) for glance in glances)
    deep = [glance.deep or (mx.zeros_like(glance.states),) * num_deep for glance in glances]
    layers = tuple(mx.concatenate([states[place] for states in deep]) for place in range(num_deep))
    return Glance(mx.concatenate([glance.states for glance in glances]), layers)


def _together(parts: Sequence[Stretch]) -> mx.array | None:
    """Return which tokens of a slice attend to each other both ways (tokens, tokens), if any do."""
    if not any(part.picture is not None and part.picture.is_whole for part in parts):
        return None
    owners = np.concatenate([np.full(part.end - part.start, _owner(part)) for part in parts])
    return mx.array((owners[:, None] == owners[None]) & (owners >= 0))


def _owner(part: Stretch) -> int:
    return part.picture.start if part.picture is not None and part.picture.is_whole else -1
