"""A running engine for tests.

The real loop, tiny real models, and EngineClient.
"""

from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from mlxctl.engine import (
    EngineClient,
    EngineProcess,
    EngineRanks,
    InlineEngine,
    RowUpdate,
    Score,
    Submit,
    TokenStream,
)
from mlxctl.engine.client.launcher import Launcher
from mlxctl.engine.loaded_weights import LoadedWeights
from mlxctl.ir import CacheOptions, ModelSpec, ProcessedImage, SamplingParams
from mlxctl.ir.tokens import pack
from mlxctl.state.settings import EngineSettings
from tests import tiny_models

GREEDY = SamplingParams(temperature=0)
_ALL_CACHED = CacheOptions()


@dataclass
class Output:
    """What one sequence gave."""

    token_ids: list[int] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)
    prompt_scores: list[Score] = field(default_factory=list)
    last: RowUpdate | None = None
    num_cached: int = 0
    num_accepted: int = 0
    num_rejected: int = 0


def sources(names: Sequence[str]) -> list[ModelSpec]:
    """Forged models as the engine loads them, named like their recipe."""
    return [ModelSpec(name=name, path=tiny_models.model(name), weights_bytes=1) for name in names]


@asynccontextmanager
async def running_engine(
    *names: str,
    models: Sequence[ModelSpec] = (),
    settings: EngineSettings | None = None,
    own_process: bool = False,
    max_queue: int = 100,
) -> AsyncIterator[EngineClient]:
    """Start an engine with these trained models, and with `models`.

    It has ended when the block is left.
    """
    chosen = settings or EngineSettings(max_rows=8)
    launcher: Launcher
    if chosen.is_group:
        launcher = EngineRanks(chosen)
    else:
        launcher = EngineProcess(chosen) if own_process else InlineEngine(chosen)
    client = EngineClient(launcher, chosen, max_queue=max_queue)
    await client.start([*sources(names), *models])
    try:
        await client.wait_ready()
        yield client
    finally:
        await client.stop(drain_seconds=0)


def submit(
    client: EngineClient,
    model: str,
    prompt: Sequence[int],
    *,
    max_tokens: int = 16,
    sampling: SamplingParams = GREEDY,
    stop: frozenset[int] = frozenset(),
    cache: CacheOptions = _ALL_CACHED,
    images: Sequence[ProcessedImage] = (),
    fairness_key: str = "",
    **fields: Any,
) -> TokenStream:
    """Submit a sequence to the engine; `fields` are others of the command."""
    command = partial(
        Submit,
        model=model,
        prompt_token_ids=pack(prompt).tobytes(),
        sampling=sampling,
        stop_token_ids=sorted(stop),
        max_tokens=max_tokens,
        cache_mode=cache.mode,
        cache_namespace=cache.prefix_namespace,
        lifetime=client.lifetime(cache),
        images=list(images),
        **fields,
    )
    return client.submit(command, fairness_key=fairness_key)


def result_of(pieces: Generator[int, None, LoadedWeights]) -> LoadedWeights:
    """Load a model without pauses."""
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            weights: LoadedWeights = end.value
            return weights


async def finish(stream: TokenStream) -> Output:
    """Wait for the end of a sequence."""
    output = Output()
    while updates := await stream.next():
        for update in updates:
            output.token_ids += update.token_ids
            output.scores += update.scores
            output.prompt_scores += update.prompt_scores
            output.last = update
            output.num_accepted += update.num_accepted_draft_tokens
            output.num_rejected += update.num_rejected_draft_tokens
            output.num_cached = max(output.num_cached, update.cache_usage.num_cached_tokens)
    return output
