"""Pictures in a running engine: what mlx-vlm says of them by itself, in slices, and beside text."""

import asyncio
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mlxctl.adapters import PreparedInput
from mlxctl.errors import BrokenModel
from mlxctl.ir import ImagePart, TextPart
from mlxctl.models import read_model
from tests import forge

from .seeing import BLUE, NUM_TOKENS, RED, answer, picture, prepared, seeing_engine

QUESTION = TextPart(text="What colour is this?")


@pytest.fixture(scope="module")
def merging(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of the mistral3 kind, whose cells are four patches, with random weights."""
    import mlx.core as mx
    from mlx.utils import tree_flatten
    from mlx_vlm.models import mistral3

    directory = Path(shutil.copytree(forge.trained("rowan"), tmp_path_factory.mktemp("models") / "merging"))
    config = json.loads((directory / "config.json").read_text()) | {"model_type": "mistral3", "spatial_merge_size": 2}
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


@pytest.fixture(params=["rowan", "merging"])
def model(request: pytest.FixtureRequest) -> Path:
    return forge.trained("rowan") if request.param == "rowan" else Path(request.getfixturevalue("merging"))


def theirs(model: Path, prompt: PreparedInput, images: Sequence[ImagePart]) -> list[int]:
    """What mlx-vlm says, read anew for every token, with the pictures as its own processor has them."""
    import io

    import mlx.core as mx
    import mlx_vlm.utils
    from mlx_vlm.models.pixtral.image_processing_pixtral import PixtralImageProcessor
    from PIL import Image

    whole: Any = mlx_vlm.utils.load_model(model)
    sight = read_model(model).sight
    assert sight is not None
    seen = PixtralImageProcessor.from_pretrained(str(model))(
        [Image.open(io.BytesIO(image.data)) for image in images], patch_size=sight.cell_size
    )
    said: list[int] = []
    for _ in range(NUM_TOKENS):
        ids = mx.array([[*prompt.token_ids, *said]])
        embedded = whole.get_input_embeddings(ids, mx.array(seen["pixel_values"]), image_sizes=seen["image_sizes"]).inputs_embeds
        said.append(int(whole.language_model(ids, inputs_embeds=embedded).logits[0, -1].argmax().item()))
    return said


@pytest.mark.parametrize("chunk", [2048, 7])
def test_the_answer_is_that_of_mlx_vlm_however_the_prompt_is_sliced(model: Path, chunk: int) -> None:
    images = [picture(RED), picture(BLUE)]
    prompt = prepared(model, images[0], QUESTION, images[1])

    async def run() -> list[int]:
        async with seeing_engine(model, prefill_chunk_max_tokens=chunk) as client:
            return (await answer(client, prompt)).token_ids

    assert asyncio.run(run()) == theirs(model, prompt, images)


def test_pictures_and_texts_decode_together_as_they_do_alone(model: Path) -> None:
    prompts = [
        prepared(model, picture(RED), QUESTION),
        prepared(model, picture(BLUE, side=32), QUESTION),
        prepared(model, QUESTION),
    ]

    async def run() -> tuple[list[list[int]], list[list[int]]]:
        async with seeing_engine(model) as client:
            together = await asyncio.gather(*(answer(client, prompt) for prompt in prompts))
            return [output.token_ids for output in together], [(await answer(client, prompt)).token_ids for prompt in prompts]

    together, alone = asyncio.run(run())
    assert together == alone
    assert together[0] != together[1]


def test_eyes_that_do_not_fit_the_model_are_told_when_it_is_loaded(tmp_path: Path) -> None:
    model = Path(shutil.copytree(forge.trained("rowan"), tmp_path / "squinting"))
    config = json.loads((model / "config.json").read_text())
    config["vision_config"]["hidden_size"] = 64
    (model / "config.json").write_text(json.dumps(config))

    async def run() -> None:
        async with seeing_engine(model):
            pass

    with pytest.raises(BrokenModel, match="cannot be loaded"):
        asyncio.run(run())
