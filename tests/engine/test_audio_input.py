"""Prompts and answers to audio equal those of mlx-vlm.

With its own processors, and its own generation.
"""

import asyncio
from pathlib import Path
from typing import Any

import mlx_vlm.utils
import numpy as np
import pytest
from mlx_vlm.generate.ar import generate_step
from mlx_vlm.models import gemma3n
from mlx_vlm.models.phi4mm import processing_phi4mm

from mlxctl.engine.vision.families.gemma4 import AudioEncoder
from mlxctl.engine.vision.language_model import VisionLanguageModel
from mlxctl.formats.adapters import PreparedInput
from mlxctl.formats.audio.registry import AUDIO_FAMILIES
from mlxctl.ir import AudioPart, TextPart
from mlxctl.ir.errors import SequenceFailed
from mlxctl.library import read_model
from tests import tiny_models
from tests.tiny_models.audio_samples import wav
from tests.tiny_models.small_towers import small_towers

from .harness import Output
from .test_vision_families import NUM_TOKENS, ours, scaled_embeddings
from .vision_harness import answer, prepared, seeing_engine

QUESTION = TextPart(text="What is said?")


def sweep(seed: int, seconds: float) -> AudioPart:
    """A tone that rises, with noise."""
    times = np.arange(int(seconds * 16_000)) / 16_000
    noise = np.random.default_rng(seed).normal(size=len(times))
    samples = 6000 * np.sin(2 * np.pi * (200 + 300 * seed * times) * times) + 600 * noise
    return AudioPart(data=wav(samples.astype("<i2").tobytes()), media_type="audio/wav")


@pytest.mark.filterwarnings("ignore")  # of processors
@pytest.mark.parametrize("name", tiny_models.HEARER_NAMES)
def test_prompt_and_answer_equal_mlx_vlm(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_models.model(name)
    recipe = read_model(model).audio
    assert recipe is not None
    monkeypatch.setattr(gemma3n.Model, "get_input_embeddings", scaled_embeddings)
    monkeypatch.setattr(processing_phi4mm, "AUDIO_TOKEN_INDEX", recipe.audio_token_id)
    clips = [sweep(1, 1.3), sweep(2, 1.3)]
    prompt = prepared(model, clips[0], QUESTION, *clips[1:])
    with small_towers():
        token_ids, answer = theirs(model, clips)
        assert list(prompt.token_ids) == token_ids
        assert ours(model, prompt) == answer


def test_audio_is_not_encoded_again_with_its_prefix_or_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_models.model("gemma4_seer")
    one, other = (prepared(model, sweep(seed, 1.3), QUESTION) for seed in (1, 2))
    assert one.token_ids == other.token_ids
    on_disk = {"cache_dir": tmp_path, "cache_disk_bytes": 1 << 30, "cache_min_free_bytes": 0}

    async def ask(*prompts: PreparedInput) -> list[Output]:
        async with seeing_engine(model, **on_disk) as client:
            return [await answer(client, prompt) for prompt in prompts]

    first = asyncio.run(ask(one, other))
    assert first[0].token_ids != first[1].token_ids
    assert first[1].num_cached <= one.images[0].start
    monkeypatch.setattr(VisionLanguageModel, "encode", fail)
    restored = asyncio.run(ask(one, other))
    assert [output.token_ids for output in restored] == [output.token_ids for output in first]


def test_error_of_the_encoder_fails_its_request_only(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_models.model("gemma4_seer")

    async def run() -> Output:
        async with seeing_engine(model) as client:
            monkeypatch.setattr(AudioEncoder, "features", fail)
            with pytest.raises(SequenceFailed, match="encoding audio failed: no audio"):
                await answer(client, prepared(model, sweep(1, 0.2), QUESTION))
            return await answer(client, prepared(model, QUESTION))

    assert asyncio.run(run()).token_ids


def fail(*_: object, **__: object) -> None:
    raise RuntimeError("no audio")


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
