"""The agent store: histories, conflicts, limits and ownership."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mlxctl.ir import StoredAgent
from mlxctl.ir.errors import Conflict, InvalidRequest
from mlxctl.state.stores import AgentStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AgentStore]:
    opened = AgentStore(tmp_path / "agents.sqlite", max_agents=3, now=lambda: 1000.0)
    yield opened
    opened.close()


def made(store: AgentStore, agent_id: str = "a", owner: str = "ann") -> StoredAgent:
    return store.create(owner, agent_id, model="m", settings=b"{}")


def begun(store: AgentStore, agent_id: str = "a") -> tuple[StoredAgent, tuple[bytes, ...]]:
    turn = store.begin_turn("ann", agent_id)
    assert turn is not None
    return turn


def test_history_grows_in_order_and_survives_restart(store: AgentStore) -> None:
    made(store)
    store.end_turn(begun(store)[0], [b"1", b"22"], model="m")
    store.close()
    store.end_turn(begun(store)[0], [b"333"], model="other")
    agent, history = begun(store)
    assert history == (b"1", b"22", b"333")
    assert (agent.num_messages, agent.num_bytes, agent.model) == (3, 6, "other")


def test_turn_from_an_old_history_is_a_conflict(store: AgentStore) -> None:
    made(store)
    first, second = begun(store)[0], begun(store)[0]
    store.end_turn(first, [b"1"], model="m")
    with pytest.raises(Conflict):
        store.end_turn(second, [b"2"], model="m")
    assert begun(store)[1] == (b"1",)


def test_reset_or_recreation_conflicts_with_running_turns(store: AgentStore) -> None:
    made(store)
    before_reset = begun(store)[0]
    assert store.reset("ann", "a") is not None
    with pytest.raises(Conflict):
        store.end_turn(before_reset, [b"1"], model="m")
    before_deletion = begun(store)[0]
    assert store.delete("ann", "a")
    made(store)
    with pytest.raises(Conflict):
        store.end_turn(before_deletion, [b"1"], model="m")
    assert begun(store)[1] == ()


def test_settings_change_keeps_history_and_survives_running_turn(store: AgentStore) -> None:
    made(store)
    before = begun(store)[0]
    changed = store.change("ann", "a", model="chosen", settings=lambda kept: kept + b" ")
    assert changed is not None
    assert (changed.model, changed.settings) == ("chosen", b"{} ")
    store.end_turn(before, [b"1"], model="m")
    agent, history = begun(store)
    assert (agent.model, agent.settings, history) == ("chosen", b"{} ", (b"1",))
    assert store.change("bob", "a", model=None, settings=bytes) is None


def test_agent_id_is_unique_per_caller(store: AgentStore) -> None:
    made(store)
    made(store, owner="bob")
    with pytest.raises(Conflict) as taken:
        made(store)
    assert taken.value.param == "id"


def test_number_of_agents_per_caller_is_limited(store: AgentStore) -> None:
    for name in "abc":
        made(store, name)
    with pytest.raises(InvalidRequest) as full:
        made(store, "d")
    assert full.value.code == "too_many_agents"
    assert made(store, "d", owner="bob")


def test_agents_are_listed_in_pages_by_creation(store: AgentStore) -> None:
    for name in "cab":
        made(store, name)
    first, has_more = store.page("ann", after=None, limit=2)
    rest, has_more_still = store.page("ann", after="a", limit=2)
    assert [agent.id for agent in (*first, *rest)] == ["c", "a", "b"]
    assert (has_more, has_more_still) == (True, False)
    with pytest.raises(InvalidRequest):
        store.page("ann", after="unknown", limit=2)


def test_caller_cannot_read_another_callers_agent(store: AgentStore) -> None:
    made(store)
    assert store.find("bob", "a") is None
    assert store.begin_turn("bob", "a") is None
    assert store.reset("bob", "a") is None
    assert not store.delete("bob", "a")
    assert store.page("bob", after=None, limit=9) == ((), False)


def test_messages_start_after_the_given_position(store: AgentStore) -> None:
    agent = made(store)
    store.end_turn(begun(store)[0], [b"0", b"1", b"2"], model="m")
    assert store.messages(agent, after=0, limit=1) == ((1, b"1"),)
