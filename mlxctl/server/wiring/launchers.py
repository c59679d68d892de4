"""How the engine runs: as a process, a thread, or ranks."""

import os
from collections.abc import Iterator

from mlxctl.engine import EngineProcess, EngineRanks, InlineEngine
from mlxctl.engine.client.launcher import Launcher
from mlxctl.ir.errors import UsageError
from mlxctl.state.rank_hosts import RankHosts, group_token
from mlxctl.state.settings import Settings


def engine_launcher(settings: Settings, *, in_process: bool) -> Launcher:
    """Return what runs the engine.

    Raises UsageError for options that ranks do not have.
    """
    engine, log_format = settings.engine, settings.server.log_format
    if engine.is_group:
        if unusable := next(_unusable(settings), None):
            raise UsageError(f"{unusable} does not work on several ranks; omit it, or --ranks and --hosts")
        if engine.hosts is None:
            return EngineRanks(engine, log_format=log_format)
        if engine.ranks > 1:
            raise UsageError(
                "--ranks and --hosts exclude each other: the hosts file has a rank for each host"
            )
        hosts = RankHosts.read(engine.hosts)
        return EngineRanks(engine, hosts=hosts, token=group_token(os.environ), log_format=log_format)
    return InlineEngine(engine) if in_process else EngineProcess(engine, log_format=log_format)


def _unusable(settings: Settings) -> Iterator[str]:
    """Yield the options in use that ranks do not have."""
    engine, model = settings.engine, settings.model
    used = {
        "--speculation": engine.speculation != "off",
        "--draft": model.draft is not None,
        "--adapter": bool(settings.adapters.paths),
        "--kv-bits": model.kv_bits != "full" or bool(settings.pool.kv_bits_by_name),
        "--prefix-cache-bits": engine.prefix_cache_bits != "full",
        "--cache-dir": engine.cache_dir is not None,
        "--trust-remote-code": model.trust_remote_code,
    }
    yield from (option for option, is_used in used.items() if is_used)
