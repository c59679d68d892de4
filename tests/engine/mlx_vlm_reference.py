"""Answers of mlx-vlm alone about images, with its own processors."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_vlm.utils
import numpy as np
from PIL import Image

from mlxctl.formats.adapters import PreparedInput
from mlxctl.ir import ImagePart
from mlxctl.library import read_model


def theirs(model: Path, prompt: PreparedInput, images: Sequence[ImagePart], *, num_tokens: int) -> list[int]:
    """Return the likeliest tokens after a prompt."""
    vision = read_model(model).vision
    assert vision is not None
    say = {"pixtral": _pixtral, "qwen_vl": _qwen, "gemma3": _gemma}[vision.family]
    opened = [Image.open(io.BytesIO(image.data)).convert("RGB") for image in images]
    return say(mlx_vlm.utils.load_model(model), model, list(prompt.token_ids), opened, num_tokens)


def _qwen(whole: Any, model: Path, prompt: list[int], images: list[Any], num_tokens: int) -> list[int]:
    """Its own generation, all of it."""
    from mlx_vlm.generate.ar import generate_step
    from mlx_vlm.models.qwen3_vl.processing_qwen3_vl import Qwen3VLImageProcessor, _qwen_vl_image_kwargs

    seen = Qwen3VLImageProcessor(**_qwen_vl_image_kwargs(str(model)))(images)
    steps = generate_step(
        mx.array([prompt]),
        whole,
        mx.array(seen["pixel_values"]),
        None,
        image_grid_thw=mx.array(seen["image_grid_thw"]),
        max_tokens=num_tokens,
        temperature=0.0,
    )
    return [int(token) for token, _ in steps]


def _pixtral(whole: Any, model: Path, prompt: list[int], images: list[Any], num_tokens: int) -> list[int]:
    """Its model, computing everything again for every token."""
    from mlx_vlm.models.pixtral.image_processing_pixtral import PixtralImageProcessor

    vision = read_model(model).vision
    assert vision is not None
    seen = PixtralImageProcessor.from_pretrained(str(model))(images, patch_size=vision.cell_size)
    generated_ids: list[int] = []
    for _ in range(num_tokens):
        ids = mx.array([[*prompt, *generated_ids]])
        embedded = whole.get_input_embeddings(
            ids, mx.array(seen["pixel_values"]), image_sizes=seen["image_sizes"]
        ).inputs_embeds
        generated_ids.append(
            int(whole.language_model(ids, inputs_embeds=embedded).logits[0, -1].argmax().item())
        )
    return generated_ids


def _gemma(whole: Any, model: Path, prompt: list[int], images: list[Any], num_tokens: int) -> list[int]:
    """Layers of Gemma under the masks that it was trained with.

    Computes everything again, because mlx-vlm's own generation leaves the masks causal.
    """
    vision = read_model(model).vision
    assert vision is not None
    pixels = np.stack(
        [np.asarray(image.resize((vision.sizes["side"],) * 2, Image.Resampling.BILINEAR)) for image in images]
    )
    pixel_values = mx.array((pixels.astype(np.float32) / 255 - 0.5) / 0.5).transpose(0, 3, 1, 2)
    generated_ids: list[int] = []
    for _ in range(num_tokens):
        ids = mx.array([[*prompt, *generated_ids]])
        embedded = whole.get_input_embeddings(ids, pixel_values, mx.ones_like(ids)).inputs_embeds
        generated_ids.append(
            int(
                _gemma_logits(whole.language_model, embedded, np.array(ids[0]) == vision.image_token_id)
                .argmax()
                .item()
            )
        )
    return generated_ids


def _gemma_logits(words: Any, states: Any, is_image: Any) -> Any:
    config = words.config
    place = np.arange(len(is_image))
    # Images are numbered; their tokens follow each other.
    owner = np.where(is_image, np.cumsum(np.diff(is_image, prepend=False) & is_image), -1)
    both_ways = (owner[:, None] == owner[None]) & is_image[None]
    causal = place[:, None] >= place[None]
    near = place[:, None] < place[None] + config.sliding_window
    states = states * config.hidden_size**0.5
    for number, layer in enumerate(words.model.layers):
        is_global = (number + 1) % config.sliding_window_pattern == 0
        states = layer(states, mx.array((causal if is_global else causal & near) | both_ways), None)
    return words.lm_head(words.model.norm(states))[0, -1]
