"""Prompts and answers to audio equal those of mlx-vlm.

With its own processors, and its own generation.
"""

from pathlib import Path
from typing import Any

import mlx_vlm.utils
import numpy as np
import pytest
from mlx_vlm.generate.ar import generate_step

from mlxctl.formats.audio.registry import AUDIO_FAMILIES
from mlxctl.ir import AudioPart, TextPart
from mlxctl.library import read_model
from tests import tiny_models
from tests.tiny_models.audio_samples import wav

from .test_vision_families import NUM_TOKENS, ours
from .vision_harness import prepared

QUESTION = TextPart(text="What is said?")


def sweep(seed: int, seconds: float) -> AudioPart:
    """A tone that rises, with noise."""
    times = np.arange(int(seconds * 16_000)) / 16_000
    noise = np.random.default_rng(seed).normal(size=len(times))
    samples = 6000 * np.sin(2 * np.pi * (200 + 300 * seed * times) * times) + 600 * noise
    return AudioPart(data=wav(samples.astype("<i2").tobytes()), media_type="audio/wav")


@pytest.mark.filterwarnings("ignore")  # of processors
@pytest.mark.parametrize("name", tiny_models.HEARER_NAMES)
def test_prompt_and_answer_equal_mlx_vlm(name: str) -> None:
    model = tiny_models.model(name)
    clips = [sweep(1, 1.3), sweep(2, 1.3)]
    prompt = prepared(model, clips[0], QUESTION, *clips[1:])
    token_ids, answer = theirs(model, clips)
    assert list(prompt.token_ids) == token_ids
    assert ours(model, prompt) == answer


def theirs(model: Path, clips: list[AudioPart]) -> tuple[list[int], list[int]]:
    """Return the ids of the prompt and the likeliest tokens."""
    whole, processor = mlx_vlm.utils.load(str(model))
    recipe = read_model(model).audio
    assert recipe is not None
    cell = processor.tokenizer.convert_ids_to_tokens(recipe.audio_token_id)
    shown = AUDIO_FAMILIES[recipe.family].shown.format(cell)
    content = shown + QUESTION.text + shown * (len(clips) - 1)
    inputs: dict[str, Any] = mlx_vlm.utils.prepare_inputs(
        processor,
        audio=[np.frombuffer(clip.data[44:], "<i2").astype(np.float32) / 32768 for clip in clips],
        prompts=f"<|im_start|>user\n{content}<|im_end|>\n<|im_start|>assistant\n",
        add_special_tokens=False,
    )
    input_ids, mask = inputs.pop("input_ids"), inputs.pop("attention_mask", None)
    steps = generate_step(input_ids, whole, None, mask, max_tokens=NUM_TOKENS, temperature=0.0, **inputs)
    return input_ids[0].tolist(), [int(token) for token, _ in steps]
