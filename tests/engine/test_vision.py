"""Images in a running engine give mlx-vlm's answers.

In slices and beside text.
"""

import asyncio
import json
import shutil
from pathlib import Path

import pytest
from msgspec import structs

from mlxctl.engine.generation.loading import load_text_model
from mlxctl.ir import TextPart
from mlxctl.ir.errors import SequenceFailed
from mlxctl.library import read_model
from tests import tiny_models

from .harness import result_of
from .mlx_vlm_reference import theirs
from .vision_harness import NUM_TOKENS, answer, noise, prepared, seeing_engine

QUESTION = TextPart(text="What color is this?")


@pytest.fixture(scope="module")
def merging(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A mistral3 model with cells of four patches and random weights."""
    import mlx.core as mx
    from mlx.utils import tree_flatten
    from mlx_vlm.models import mistral3

    directory = Path(
        shutil.copytree(tiny_models.trained("pixtral_colors"), tmp_path_factory.mktemp("models") / "merging")
    )
    config = json.loads((directory / "config.json").read_text()) | {
        "model_type": "mistral3",
        "spatial_merge_size": 2,
    }
    (directory / "config.json").write_text(json.dumps(config))
    shape = mistral3.ModelConfig.from_dict(config)
    shape.text_config = mistral3.TextConfig.from_dict(config["text_config"])
    shape.vision_config = mistral3.VisionConfig.from_dict(config["vision_config"])
    mx.random.seed(3)
    weights = {
        name: mx.random.normal(value.shape) * (value.shape[-1] ** -0.5) if value.ndim > 1 else value
        for name, value in tree_flatten(mistral3.Model(shape).parameters())
    }
    mx.save_safetensors(str(directory / "model.safetensors"), weights, metadata={"format": "mlx"})
    return directory


@pytest.fixture(params=["pixtral_colors", "merging", *tiny_models.VISION_NAMES])
def model(request: pytest.FixtureRequest) -> Path:
    if request.param in tiny_models.VISION_NAMES:
        return tiny_models.model(request.param)
    return (
        tiny_models.trained("pixtral_colors")
        if request.param == "pixtral_colors"
        else Path(request.getfixturevalue("merging"))
    )


@pytest.mark.parametrize("chunk", [2048, 7])
def test_answer_equals_mlx_vlm_for_any_prefill_slices(model: Path, chunk: int) -> None:
    images = [noise(1), noise(2, width=30, height=90)]
    prompt = prepared(model, images[0], QUESTION, images[1])

    async def run() -> list[int]:
        async with seeing_engine(model, prefill_pass_max_tokens=chunk) as client:
            return (await answer(client, prompt)).token_ids

    assert asyncio.run(run()) == theirs(model, prompt, images, num_tokens=NUM_TOKENS)


def test_image_and_text_rows_decode_together_as_alone(model: Path) -> None:
    prompts = [
        prepared(model, noise(1), QUESTION),
        prepared(model, noise(2, width=32, height=70), QUESTION),
        prepared(model, QUESTION),
    ]

    async def run() -> tuple[list[list[int]], list[list[int]]]:
        async with seeing_engine(model) as client:
            together = await asyncio.gather(*(answer(client, prompt) for prompt in prompts))
            return [output.token_ids for output in together], [
                (await answer(client, prompt)).token_ids for prompt in prompts
            ]

    together, alone = asyncio.run(run())
    assert together == alone
    assert together[0] != together[1]


def test_broken_vision_part_serves_text_and_refuses_images(tmp_path: Path) -> None:
    model = Path(shutil.copytree(tiny_models.trained("pixtral_colors"), tmp_path / "squinting"))
    seen, text = prepared(model, noise(1), QUESTION), prepared(model, QUESTION)
    config = json.loads((model / "config.json").read_text())
    config["vision_config"]["hidden_size"] = 64
    (model / "config.json").write_text(json.dumps(config))

    async def run() -> tuple[str | None, list[int], str]:
        async with seeing_engine(model) as client:
            generated_ids = (await answer(client, text)).token_ids
            with pytest.raises(SequenceFailed) as refusal:
                await answer(client, seen)
            return client.loaded["m"].encoder_problem, generated_ids, str(refusal.value)

    async def run_whole() -> list[int]:
        async with seeing_engine(tiny_models.trained("pixtral_colors")) as client:
            return (await answer(client, text)).token_ids

    problem, generated_ids, refusal = asyncio.run(run())
    assert problem is not None
    assert problem.startswith("its vision part cannot be loaded: ")
    assert generated_ids == asyncio.run(run_whole())
    assert "does not take the images or audio of the prompt" in refusal


@pytest.mark.parametrize(("trusts", "executed"), [(False, False), (True, True)])
def test_code_that_a_config_names_after_its_check_is_not_run(
    tmp_path: Path, trusts: bool, executed: bool
) -> None:
    model = Path(shutil.copytree(tiny_models.trained("pixtral_colors"), tmp_path / "swapped"))
    loading = load_text_model(structs.replace(read_model(model).spec("m"), trust_remote_code=trusts))
    next(loading)
    # The text part is read; a writer of the directory changes it before the vision part is.
    config = json.loads((model / "config.json").read_text()) | {"model_file": "code.py"}
    (model / "config.json").write_text(json.dumps(config))
    (model / "code.py").write_text(f"import os; os.mkdir({str(tmp_path / 'executed')!r}); ModelConfig = None")
    weights = result_of(loading)
    assert (tmp_path / "executed").exists() is executed
    assert weights.encoder_problem is not None
    assert trusts or "its config.json names Python code (model_file)" in weights.encoder_problem


@pytest.mark.parametrize(
    ("name", "changes", "problem"),
    [
        (
            "gemma3_seer",
            {"mm_tokens_per_image": 4},
            "there are 16 features and 4 cells",
        ),
        (
            "qwen2_5_vl",
            {"rope_scaling": {"type": "mrope", "mrope_section": [1, 1, 1]}},
            "has no 3 frequencies to follow three axes",
        ),
    ],
)
def test_mismatched_vision_and_text_parts_are_reported_on_load(
    tmp_path: Path, name: str, changes: dict[str, object], problem: str
) -> None:
    model = Path(shutil.copytree(tiny_models.model(name), tmp_path / name))
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | changes))

    async def run() -> str | None:
        async with seeing_engine(model) as client:
            return client.loaded["m"].encoder_problem

    assert problem in str(asyncio.run(run()))
