"""A rank that differs is refused by name, before ranks compute together."""

import asyncio
import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from mlxctl.engine import EngineClient, EngineRanks
from mlxctl.engine.backend import CPU
from mlxctl.engine.client.rank_launcher import _free_ports, follower_command
from mlxctl.engine.memory import EngineMemory
from mlxctl.engine.ranks import group as rank_group
from mlxctl.engine.ranks.group import RankGroup
from mlxctl.engine.ranks.plan import plan_of
from mlxctl.ir.errors import RanksUnavailable
from mlxctl.state.rank_hosts import TOKEN_VARIABLE, RankHosts
from mlxctl.state.settings import EngineSettings
from tests import tiny_models
from tests.engine.harness import finish, sources, submit

(SPEC,) = sources(["qwen3"])


def started_follower(hosts: RankHosts, models: dict[str, Path]) -> "subprocess.Popen[bytes]":
    """Start rank 1 as `mlxctl rank` does."""
    names = msgspec.json.encode(models, enc_hook=str).decode()
    environment = os.environ | {TOKEN_VARIABLE: "secret"}
    return subprocess.Popen(follower_command(1, hosts, "text", names), env=environment)


def test_rank_with_another_secret_or_model_is_refused_by_name() -> None:
    hosts = RankHosts.local(_free_ports(2))
    follower = started_follower(
        hosts, {"qwen3": tiny_models.model("qwen3"), "other": tiny_models.model("llama3")}
    )

    async def serve(name: str, token: str) -> list[int]:
        launcher = EngineRanks(EngineSettings(), hosts=hosts, token=token)
        client = EngineClient(launcher, EngineSettings(), max_queue=1)
        await client.start([msgspec.structs.replace(SPEC, name=name)])
        try:
            await client.wait_ready()
            return (await finish(submit(client, name, range(20, 30), max_tokens=3))).token_ids
        finally:
            await client.stop(drain_seconds=0)

    place = f"rank 1 at {hosts.ranks[1][0]}: it has"
    try:
        with pytest.raises(RanksUnavailable, match=f"{place} another secret: set {TOKEN_VARIABLE}"):
            asyncio.run(serve("qwen3", "guess"))
        with pytest.raises(RanksUnavailable, match=f"{place} model '[0-9a-f]+' instead of '[0-9a-f]+'"):
            asyncio.run(serve("other", "secret"))
        assert follower.wait(30) == 0
    finally:
        follower.kill()


def test_plan_names_the_first_difference() -> None:
    plan = plan_of(SPEC, 2, "tensor")
    assert plan.difference(plan_of(SPEC, 2, "tensor")) is None
    older = msgspec.structs.replace(plan, mlx_lm="0.1", num_ranks=3)
    assert plan.difference(older) == f"mlx-lm '0.1' instead of {plan.mlx_lm!r}"


def test_closed_port_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_group, "CONNECT_SECONDS", 0.0)
    hosts = RankHosts.local(_free_ports(2))
    group = RankGroup(hosts, "secret")

    with pytest.raises(RanksUnavailable) as failure:
        list(group.begin_load(SPEC, EngineMemory(backend=CPU, limit_bytes=1 << 40, prefix_cache_bytes=0)))

    address = hosts.ranks[1][0]
    assert str(failure.value) == (
        f"rank 1 at {address}: it does not answer: Connection refused; start `mlxctl rank` there"
    )
