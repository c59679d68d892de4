"""Loads rank 0's share of a text model.

MLX thread only. The other ranks load theirs meanwhile.
"""

import contextlib
import time
from collections.abc import Generator
from dataclasses import replace

from mlxctl.engine.decoding.shared_caches import RanksBrokenError
from mlxctl.engine.generation.measurement import measure
from mlxctl.engine.loaded_weights import LoadedWeights
from mlxctl.engine.loading.loader import load_lm_model, read_weights
from mlxctl.engine.loading.sharding import keep_share
from mlxctl.engine.memory import EngineMemory
from mlxctl.engine.ranks.group import RankGroup
from mlxctl.ir import ModelSpec


def load_share(
    spec: ModelSpec, group: RankGroup, memory: EngineMemory
) -> Generator[int, None, LoadedWeights]:
    """Load the model as `load_text_model` does.

    Its caches are shared with the other ranks. Raises LOAD_ERRORS and RanksUnavailable.
    """
    started = time.monotonic()
    try:
        for _ in group.begin_load(spec, memory):
            yield 0
        model, config = load_lm_model(spec.path)
        keep_share(model, group.ring, group.split_of(spec))
        num_bytes = 0
        for num_bytes in read_weights(model):
            yield num_bytes
        for _ in group.end_load(spec):
            yield num_bytes
        weights = measure(model, started, config=config)
    except BaseException:
        with contextlib.suppress(RanksBrokenError):
            group.unload(spec.name)
        raise
    return replace(weights, is_sharded=True, create_caches=group.share(spec.name, weights.create_caches))
