"""Embeddings in a running engine equal those of the layers.

Beside decoding rows.
"""

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mlxctl.engine import EngineClient
from mlxctl.ir import EmbeddingRecipe, Pooling
from mlxctl.ir.errors import EngineDied, SequenceFailed
from mlxctl.library import read_model
from mlxctl.state.settings import EngineSettings
from tests import tiny_models

from .harness import finish, running_engine, submit

TEXTS = [[1, 2, 3], [7] * 90, [11, 12], list(range(100, 400)), [5]]
LAST = EmbeddingRecipe(pooling=("last_token",), is_normalized=True, max_length=1024)


def embedding_engine(
    recipe: EmbeddingRecipe = LAST,
    *others: str,
    settings: EngineSettings | None = None,
    own_process: bool = False,
) -> AbstractAsyncContextManager[EngineClient]:
    """An engine with the tiny embedding model and text models.

    It embeds by `recipe`.
    """
    embedder = replace(read_model(tiny_models.model("embedder")), embedding=recipe).spec("embedder")
    return running_engine(
        *others,
        models=[embedder],
        settings=settings or EngineSettings(max_rows=8, prefill_pass_max_tokens=64),
        own_process=own_process,
    )


async def embed(
    client: EngineClient, texts: Sequence[Sequence[int]], dimensions: int | None = None
) -> list[Any]:
    return [
        np.frombuffer(vector, dtype=np.float32)
        for vector in await client.embed(model="embedder", texts=texts, dimensions=dimensions)
    ]


def states_of(texts: Sequence[Sequence[int]]) -> list[Any]:
    """Embeddings by the model's layers, one text at a time.

    Without any code of ours.
    """
    import mlx.core as mx
    from mlx_lm.models import qwen3

    facts = read_model(tiny_models.model("embedder"))
    model = qwen3.Qwen3Model(qwen3.ModelArgs.from_dict(dict(facts.config)))
    model.load_weights(list(mx.load(str(facts.path / "model.safetensors")).items()))
    return [np.array(model(mx.array([text]))[0].astype(mx.float32)) for text in texts]


def pooled(states: Any, pooling: Pooling) -> Any:
    """The definitions, written down a second time."""
    count = len(states)
    weights = np.arange(1, count + 1)[:, None]
    return {
        "cls": states[0],
        "last_token": states[-1],
        "max": states.max(axis=0),
        "mean": states.mean(axis=0),
        "mean_sqrt_len": states.sum(axis=0) / np.sqrt(count),
        "weighted_mean": (states * weights).sum(axis=0) / weights.sum(),
    }[pooling]


@pytest.mark.parametrize("pooling", ["cls", "last_token", "max", "mean", "mean_sqrt_len", "weighted_mean"])
def test_vector_equals_the_pooled_hidden_states(pooling: Pooling) -> None:
    async def ask() -> list[Any]:
        async with embedding_engine(replace(LAST, pooling=(pooling,), is_normalized=False)) as client:
            return await embed(client, TEXTS)

    for vector, states in zip(asyncio.run(ask()), states_of(TEXTS), strict=True):
        np.testing.assert_allclose(vector, pooled(states, pooling), rtol=1e-4, atol=1e-4)


def test_several_pooling_modes_are_concatenated() -> None:
    async def ask() -> tuple[int | None, list[Any]]:
        async with embedding_engine(replace(LAST, pooling=("cls", "mean"), is_normalized=False)) as client:
            return client.loaded["embedder"].dimensions, await embed(client, TEXTS[:1])

    dimensions, (vector,) = asyncio.run(ask())
    (states,) = states_of(TEXTS[:1])
    assert dimensions == len(vector) == 128
    np.testing.assert_allclose(vector, np.concatenate([states[0], states.mean(axis=0)]), rtol=1e-4, atol=1e-4)


def test_batched_text_has_the_same_normalized_vector_as_alone() -> None:
    async def ask() -> tuple[list[Any], list[Any]]:
        async with embedding_engine() as client:
            return await embed(client, TEXTS), [(await embed(client, [text]))[0] for text in TEXTS]

    together, alone = asyncio.run(ask())
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
        assert np.linalg.norm(one) == pytest.approx(1, abs=1e-6)
    assert abs(alone[0] - alone[1]).max() > 0.1


def test_fewer_dimensions_are_cut_and_normalized() -> None:
    async def ask() -> tuple[list[Any], list[Any]]:
        async with embedding_engine() as client:
            return await embed(client, TEXTS), await embed(client, TEXTS, dimensions=16)

    for whole, short in zip(*asyncio.run(ask()), strict=True):
        np.testing.assert_allclose(short, whole[:16] / np.linalg.norm(whole[:16]), atol=1e-5)


def test_rows_decode_while_texts_are_embedded() -> None:
    async def run() -> tuple[list[int], int, int]:
        async with embedding_engine(LAST, "endless") as client:
            row = submit(client, "endless", [1, 2, 3], max_tokens=10_000)
            await row.next()
            job = asyncio.create_task(client.embed(model="embedder", texts=[[9] * 64] * 40))
            pieces = []
            while not job.done():
                pieces += [len(update.token_ids) for update in await row.next()]
            row.cancel()
            return pieces, len(await job), client.num_open

    pieces, num_vectors, num_open = asyncio.run(run())
    assert (num_vectors, num_open) == (40, 0)
    assert sum(pieces) > 40


def test_cancelled_embedding_stops_and_others_finish() -> None:
    async def run() -> tuple[int, list[Any]]:
        async with embedding_engine() as client:
            long = asyncio.create_task(client.embed(model="embedder", texts=[[9] * 1000] * 200))
            await asyncio.sleep(0.05)
            long.cancel()
            await asyncio.wait({long})
            unloaded = await client.unload("embedder")
            return unloaded.weights_bytes, [long.cancelled()]

    weights_bytes, (was_cancelled,) = asyncio.run(run())
    assert was_cancelled
    assert weights_bytes > 0


def test_tokens_are_counted_as_texts_are_computed() -> None:
    counted: list[int] = []
    computed = asyncio.Event()

    def count(number: int) -> None:
        counted.append(number)
        if number:
            computed.set()

    async def run() -> None:
        async with embedding_engine() as client:
            await client.embed(model="embedder", texts=[[1] * 7, [2] * 90, [3] * 200], on_tokens=count)
            assert sum(counted) == 297
            counted.clear()
            computed.clear()
            long = asyncio.create_task(
                client.embed(model="embedder", texts=[[9] * 50] * 400, on_tokens=count)
            )
            await computed.wait()
            long.cancel()
            await asyncio.wait({long})
            assert 0 < sum(counted) < 50 * 400

    asyncio.run(run())


def test_job_for_an_unloaded_model_fails_alone() -> None:
    async def run() -> str:
        async with embedding_engine(LAST, "qwen3") as client:
            with pytest.raises(SequenceFailed) as refusal:
                await client.embed(model="qwen3", texts=[[1]])
            assert len((await finish(submit(client, "qwen3", [1, 2], max_tokens=4))).token_ids) == 4
            return str(refusal.value)

    assert asyncio.run(run()) == "embedding model 'qwen3' is not loaded"


def test_text_larger_than_memory_fails() -> None:
    async def run() -> None:
        # The weights take about 0.7 MB, and the cache of a thousand tokens 1 MB. The limit is that of a
        # process.
        settings = EngineSettings(memory_limit_bytes=1_500_000, prefix_cache_bytes=0)
        async with embedding_engine(settings=settings, own_process=True) as client:
            with pytest.raises(SequenceFailed, match="the memory limit leaves"):
                await client.embed(model="embedder", texts=[[1] * 1000])
            assert len(await client.embed(model="embedder", texts=[[1] * 100])) == 1

    asyncio.run(run())


def test_dead_engine_fails_open_jobs() -> None:
    async def run() -> None:
        async with embedding_engine(own_process=True) as client:
            assert client.hello is not None
            job = asyncio.create_task(client.embed(model="embedder", texts=[[9] * 1000] * 200))
            await asyncio.sleep(0.05)
            os.kill(client.hello.pid, signal.SIGKILL)
            with pytest.raises(EngineDied):
                await job

    asyncio.run(run())
