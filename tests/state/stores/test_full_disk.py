"""A full disk: stored data can be read and deleted.

New data is an error.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from mlxctl.ir import StoredItem, StoredResponse
from mlxctl.ir.errors import StoreUnavailable
from mlxctl.ir.policy import ApiKey
from mlxctl.prefix_cache.disk import maintenance
from mlxctl.server.policy import SettingsPolicy
from mlxctl.server.policy.store_backend import StoredPolicy
from mlxctl.state.stores import AgentStore, ResponseStore
from mlxctl.state.stores.policy import PolicyStore
from tests.prefix_cache.disk_records import closed, opened, store
from tests.prefix_cache.test_disk_faults import problems
from tests.small_disk import run, small_disk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", megabytes=6) as home:
        yield home


def remount(disk: Path, mode: str) -> None:
    option = {"ro": "-ur", "rw": "-uw"}[mode]
    run(*(("mount", option) if sys.platform == "darwin" else ("mount", "-o", f"remount,{mode}")), str(disk))


def fill(disk: Path) -> None:
    """Fill the disk completely."""
    number = len(list(disk.glob("ballast*")))
    with (disk / f"ballast{number}").open("wb", buffering=0) as file:
        for size in (65536, 64):
            try:
                while file.write(os.urandom(size)):
                    pass
            except OSError:
                pass
    assert shutil.disk_usage(disk).free == 0


@pytest.mark.parametrize("is_reopened", [False, True], ids=["running", "after a restart"])
def test_agents_can_be_read_reset_and_deleted_on_a_full_disk(disk: Path, is_reopened: bool) -> None:
    agents = AgentStore(disk / "agents.sqlite", max_agents=9)
    for name in ("one", "two"):
        agent = agents.create("ann", name, model="m", settings=b"{}")
        agents.end_turn(agent, [os.urandom(300_000)], model="m")
    fill(disk)
    if is_reopened:
        agents.close()

    with pytest.raises(StoreUnavailable, match="full"):
        agents.create("ann", "three", model="m", settings=os.urandom(100_000))
    found = agents.find("ann", "one")
    assert found is not None
    assert len(agents.messages(found)) == 1
    assert agents.delete("ann", "one")
    assert shutil.disk_usage(disk).free >= 250_000
    fill(disk)
    reset = agents.reset("ann", "two")
    assert reset is not None
    assert reset.num_messages == 0
    assert shutil.disk_usage(disk).free >= 250_000
    agents.close()


def test_responses_can_be_continued_and_deleted_on_a_full_disk(disk: Path) -> None:
    responses = ResponseStore(disk / "responses.sqlite", max_bytes=10**7, ttl_seconds=3600)
    for name, before in (("a", None), ("b", "a")):
        item = StoredItem(id=f"{name}-item", body=os.urandom(300_000))
        responses.save(
            "ann", StoredResponse(id=name, previous_id=before, body=b"{}", input=(item,), output=())
        )
    fill(disk)

    assert responses.find("ann", "b") is not None
    chain = responses.conversation("ann", "b")
    assert chain is not None
    assert len(chain) == 2
    assert responses.delete("ann", "a")
    assert responses.delete("ann", "b")
    assert shutil.disk_usage(disk).free >= 500_000
    responses.close()


def test_keys_can_be_revoked_on_a_full_disk(disk: Path) -> None:
    policy = StoredPolicy(PolicyStore(disk / "policy.sqlite"), SettingsPolicy((), (), {}))
    keys = [
        ApiKey(id=str(number), name=f"key {number}", sha256=f"{number:064}", scopes=(), created=number)
        for number in range(30)
    ]
    for key in keys:
        policy.put_key(key)
    fill(disk)
    for key in keys[:9]:
        policy.put_key(replace(key, revoked_at=1.0))
    again = StoredPolicy(PolicyStore(disk / "policy.sqlite"), SettingsPolicy((), (), {}))
    assert [key.revoked_at for key in again.all_keys()] == [1.0] * 9 + [None] * 21


def test_first_key_that_does_not_fit_leaves_no_store(disk: Path) -> None:
    store = PolicyStore(disk / "policy.sqlite")
    fill(disk)
    with pytest.raises(StoreUnavailable, match="full"):
        StoredPolicy(store, SettingsPolicy((), (), {})).put_key(
            ApiKey(id="1", name="first", sha256="1" * 64, scopes=(), created=1)
        )
    # An empty one would keep every later server from starting.
    assert not store.path.exists()


def test_stores_on_a_read_only_disk_can_be_read(disk: Path) -> None:
    agents = AgentStore(disk / "agents.sqlite", max_agents=9)
    agents.create("ann", "one", model="m", settings=b"{}")
    agents.close()
    PolicyStore(disk / "policy.sqlite").put("key", "one", b"{}")
    remount(disk, "ro")
    assert [record.id for record in PolicyStore(disk / "policy.sqlite").read()] == ["one"]
    assert agents.find("ann", "one") is not None
    for action in (
        lambda: agents.create("ann", "two", model="m", settings=b"{}"),
        lambda: PolicyStore(disk / "policy.sqlite").put("key", "two", b"{}"),
    ):
        with pytest.raises(StoreUnavailable, match="readonly"):
            action()
    remount(disk, "rw")
    agents.create("ann", "two", model="m", settings=b"{}")
    agents.close()
    assert len(list(disk.iterdir())) == 4


def test_cached_prefixes_can_be_dropped_on_a_full_disk(disk: Path) -> None:
    tier = opened(disk)
    store(tier, *range(1, 16))
    roots = [chunk.key for chunk in tier.index.chunks() if chunk.parent is None]
    fill(disk)
    tier.index.drop(roots[0])
    closed(tier)
    assert problems(disk) == []

    fill(disk)
    assert maintenance.drop(disk, [roots[1]]).num_changed == 3
    fill(disk)
    assert maintenance.clear(disk).num_chunks == 0
    assert shutil.disk_usage(disk).free >= 700_000
