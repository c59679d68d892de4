"""The ring of `mx.distributed` that all ranks join."""

import json
import os
import tempfile
from typing import Any

from mlxctl.state.rank_hosts import RankHosts


def join_ring(hosts: RankHosts, rank: int) -> Any:
    """Return the group, once all ranks have joined. MLX thread only.

    Raises RuntimeError when a rank cannot be reached. A process joins one ring at most.
    """
    import mlx.core as mx

    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump([[str(address) for address in addresses] for addresses in hosts.ranks], file)
        file.flush()
        # MLX reads both here, and nowhere else.
        os.environ["MLX_HOSTFILE"], os.environ["MLX_RANK"] = file.name, str(rank)
        try:
            return mx.distributed.init(strict=True, backend="ring")
        finally:
            del os.environ["MLX_HOSTFILE"], os.environ["MLX_RANK"]
