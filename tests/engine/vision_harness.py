"""A running engine with a vision model for tests, and its images."""

import io
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from mlxctl.engine import EngineClient
from mlxctl.formats.adapters import PreparedInput, create_adapter
from mlxctl.ir import AudioPart, CacheOptions, GenerationRequest, ImagePart, Message, SeenPart, TextPart
from mlxctl.library import read_model
from mlxctl.probe.image_check import one_color_png
from mlxctl.state.settings import EngineSettings

from .harness import Output, finish, running_engine, submit

RED, BLUE = (220, 20, 20), (20, 40, 220)
NUM_TOKENS = 8
_ALL_CACHED = CacheOptions()


def image(color: tuple[int, int, int], side: int = 64) -> ImagePart:
    """A square of one color."""
    return ImagePart(data=one_color_png(color, side=side), media_type="image/png")


def noise(seed: int, *, width: int = 64, height: int = 48) -> ImagePart:
    """Noise on red or on blue.

    No two cells look the same.
    """
    colors = np.random.default_rng(seed).integers(-40, 40, (height, width, 3))
    pixels = np.clip(np.array((220, 20, 20) if seed % 2 else (20, 40, 220)) + colors, 0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return ImagePart(data=file.getvalue(), media_type="image/png")


def seeing_engine(model: Path, **settings: Any) -> AbstractAsyncContextManager[EngineClient]:
    """Start an engine with the model as "m"."""
    chosen = EngineSettings(**{"max_rows": 8, **settings})
    return running_engine(models=[read_model(model).spec("m")], settings=chosen)


def prepared(model: Path, *parts: SeenPart | AudioPart | TextPart) -> PreparedInput:
    """A question as the engine gets it."""
    asked = GenerationRequest(model="m", messages=(Message(role="user", parts=parts),), max_tokens=NUM_TOKENS)
    adapter = create_adapter(read_model(model), name="m")
    return adapter.prepare_input(adapter.normalized(asked))


async def answer(client: EngineClient, prompt: PreparedInput, cache: CacheOptions = _ALL_CACHED) -> Output:
    """Return the greedy answer to a prompt."""
    return await finish(
        submit(client, "m", prompt.token_ids, max_tokens=NUM_TOKENS, images=prompt.images, cache=cache)
    )
