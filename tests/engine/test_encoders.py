"""Encoders in a running engine equal their definitions, beside decoding rows."""

import asyncio
import json
import shutil
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from mlxctl.engine import EngineClient
from mlxctl.formats.adapters import create_adapter
from mlxctl.ir import EmbeddingRecipe, ModelSpec
from mlxctl.library import read_model
from mlxctl.state.settings import EngineSettings
from tests import tiny_models

from .encoder_reference import Reference
from .harness import running_engine, submit

# Shorter and longer than the windows; one token, and as many as there are places for.
TEXTS = [[1, 2, 3], [7] * 90, [11, 12], list(range(100, 400)), [5], list(range(20, 420))]
KINDS = pytest.mark.parametrize("kind", tiny_models.ENCODER_NAMES)


def spec(kind: str) -> ModelSpec:
    return read_model(tiny_models.encoder(kind)).spec(kind)


def engine(
    *kinds: str | ModelSpec, others: Sequence[str] = (), max_slice: int = 4096
) -> AbstractAsyncContextManager[EngineClient]:
    """An engine with tiny encoders and text models.

    It computes at most `max_slice` tokens at a time.
    """
    chosen = EngineSettings(max_rows=8, prefill_pass_max_tokens=max_slice)
    encoders = [spec(kind) if isinstance(kind, str) else kind for kind in kinds]
    return running_engine(*others, models=encoders, settings=chosen)


async def embed(
    client: EngineClient, kind: str, texts: Sequence[Sequence[int]], dimensions: int | None = None
) -> list[Any]:
    vectors = await client.embed(model=kind, texts=texts, dimensions=dimensions)
    return [np.frombuffer(vector, dtype=np.float32) for vector in vectors]


def defined(kind: str, texts: Sequence[Sequence[int]]) -> list[Any]:
    """The vectors by the definitions, of each text by itself."""
    reference, recipe = Reference(tiny_models.encoder(kind)), _recipe(kind)
    vectors = []
    for text in texts:
        states = reference.states(text)
        vector = states[0] if recipe.pooling == ("cls",) else states.mean(axis=0)
        for dense in reference.dense:
            vector = dense @ vector
        vectors.append(vector / np.linalg.norm(vector))
    return vectors


def _recipe(kind: str) -> EmbeddingRecipe:
    recipe = read_model(tiny_models.encoder(kind)).embedding
    assert recipe is not None
    return recipe


@KINDS
def test_vector_equals_the_reference_in_one_turn_or_many(kind: str) -> None:
    async def ask(max_slice: int) -> tuple[int | None, list[Any]]:
        async with engine(kind, max_slice=max_slice) as client:
            return client.loaded[kind].dimensions, await embed(client, kind, TEXTS)

    expected = defined(kind, TEXTS)
    for max_slice in (16, 4096):
        dimensions, vectors = asyncio.run(ask(max_slice))
        assert {len(vector) for vector in vectors} == {dimensions}
        for vector, other in zip(vectors, expected, strict=True):
            np.testing.assert_allclose(vector, other, atol=2e-6)


@KINDS
def test_token_order_changes_the_vector(kind: str) -> None:
    async def ask() -> list[Any]:
        async with engine(kind) as client:
            return await embed(client, kind, [[9, 30, 31, 32, 10], [9, 32, 31, 30, 10]])

    one, other = asyncio.run(ask())
    assert one @ other < 0.99


@settings(max_examples=12, deadline=None)
@given(
    texts=st.lists(st.lists(st.integers(4, 511), min_size=1, max_size=60), min_size=2, max_size=6),
    kind=st.sampled_from(tiny_models.ENCODER_NAMES),
    max_slice=st.sampled_from([16, 100, 4096]),
)
def test_batching_and_padding_do_not_change_vectors(
    texts: list[list[int]], kind: str, max_slice: int
) -> None:
    async def ask() -> tuple[list[Any], list[Any]]:
        async with engine(kind, max_slice=max_slice) as client:
            return await embed(client, kind, texts), [
                (await embed(client, kind, [text]))[0] for text in texts
            ]

    for together, alone in zip(*asyncio.run(ask()), strict=True):
        np.testing.assert_allclose(together, alone, atol=1e-5)


@pytest.mark.parametrize("kind", tiny_models.CROSS_ENCODER_NAMES)
def test_score_of_a_pair_equals_the_reference(kind: str) -> None:
    model = read_model(tiny_models.encoder(kind))
    adapter, reference = create_adapter(model, name=kind), Reference(tiny_models.encoder(kind))
    documents = ["Bread.", "The ferry leaves at noon, and the last one comes back late.", "Winter " * 30]
    pairs = [adapter.prepare_pair("When does the ferry leave?", document) for document in documents]

    async def ask() -> list[Any]:
        async with engine(kind) as client:
            return await embed(client, kind, pairs)

    tokenizer = Tokenizer.from_file(str(tiny_models.encoder(kind) / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    scores = asyncio.run(ask())
    for (score,), document in zip(scores, documents, strict=True):
        encoding = tokenizer.encode("When does the ferry leave?", document)
        logit = reference.score(encoding.ids, encoding.type_ids)
        expected = logit if kind == "bert_scorer" else 1 / (1 + np.exp(-logit))
        assert score == pytest.approx(expected, abs=1e-5)


@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=5), reach=st.none() | st.integers(0, 50))
def test_masks_cover_the_window_and_padding_attends_to_itself(lengths: list[int], reach: int | None) -> None:
    from mlxctl.engine.embedding.encoders import Masks

    width = max(lengths)
    masks = Masks(lengths, width=width, reach=reach)
    shape = (len(lengths), 1, width, width)
    everywhere, nearby = (
        np.ones(shape, bool) if mask is None else np.broadcast_to(np.array(mask), shape)
        for mask in (masks.everywhere, masks.nearby)
    )
    places = np.arange(width)
    is_near = abs(places[:, None] - places[None]) <= (width if reach is None else reach)
    for row, length in enumerate(lengths):
        is_text = places < length
        np.testing.assert_array_equal(everywhere[row, 0], np.broadcast_to(is_text, (width, width)))
        np.testing.assert_array_equal(nearby[row, 0, :length], (is_near & is_text)[:length])
    assert nearby.any(axis=-1).all()


@KINDS
def test_quantized_encoder_gives_similar_vectors(kind: str, tmp_path: Path) -> None:
    async def ask(model: ModelSpec) -> list[Any]:
        async with engine(model) as client:
            return await embed(client, kind, TEXTS[:4])

    small = read_model(quantized(kind, tmp_path / kind))
    assert small.weights_bytes < 0.5 * spec(kind).weights_bytes
    for one, other in zip(asyncio.run(ask(small.spec(kind))), defined(kind, TEXTS[:4]), strict=True):
        assert 0.99 < one @ other < 1 - 1e-7


def quantized(kind: str, directory: Path) -> Path:
    """The tiny encoder in 8 bits, as converters write it.

    Every matrix whose rows are whole groups, tables included.
    """
    import mlx.core as mx

    model = Path(shutil.copytree(tiny_models.encoder(kind), directory))
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"quantization": {"group_size": 64, "bits": 8}}))
    weights: dict[str, mx.array] = {}
    for name, array in mx.load(str(model / "model.safetensors")).items():
        if name.endswith(".weight") and array.ndim == 2:
            packed = mx.quantize(array, group_size=64, bits=8)
            layer = name.removesuffix(".weight")
            weights |= dict(zip((name, f"{layer}.scales", f"{layer}.biases"), packed, strict=True))
        else:
            weights[name] = array
    mx.eval(weights)
    mx.save_safetensors(str(model / "model.safetensors"), weights)
    return model


def test_fewer_dimensions_are_cut_after_the_dense_layers() -> None:
    async def ask() -> tuple[list[Any], list[Any]]:
        async with engine("embeddinggemma") as client:
            return await embed(client, "embeddinggemma", TEXTS), await embed(
                client, "embeddinggemma", TEXTS, dimensions=16
            )

    for whole, short in zip(*asyncio.run(ask()), strict=True):
        assert len(whole) == 48
        np.testing.assert_allclose(short, whole[:16] / np.linalg.norm(whole[:16]), atol=1e-6)


def test_rows_decode_while_a_long_text_is_encoded() -> None:
    async def run() -> tuple[int, list[int]]:
        async with engine("bert", others=["endless"], max_slice=64) as client:
            row = submit(client, "endless", [1, 2, 3], max_tokens=10_000)
            await row.next()
            job = asyncio.create_task(client.embed(model="bert", texts=[[9] * 400] * 10))
            pieces = []
            while not job.done():
                pieces += [len(update.token_ids) for update in await row.next()]
            row.cancel()
            return len(await job), pieces

    num_vectors, pieces = asyncio.run(run())
    assert num_vectors == 10
    # Ten texts of four layers each, one or two layers at a time.
    assert sum(pieces) >= 20


def test_job_cancelled_between_layers_frees_its_memory() -> None:
    async def run() -> tuple[bool, list[Any], list[Any]]:
        async with engine("bert", max_slice=16) as client:
            long = asyncio.create_task(client.embed(model="bert", texts=[[9] * 400] * 100))
            await asyncio.sleep(0.05)
            long.cancel()
            await asyncio.wait({long})
            vectors = await embed(client, "bert", TEXTS)
            await client.unload("bert")
            return long.cancelled(), vectors, list(client.loaded)

    was_cancelled, vectors, loaded = asyncio.run(run())
    assert (was_cancelled, loaded) == (True, [])
    np.testing.assert_allclose(vectors[0], defined("bert", TEXTS)[0], atol=2e-6)
