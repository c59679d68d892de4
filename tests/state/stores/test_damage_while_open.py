"""Stores answer after their files were deleted or damaged while open."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mlxctl.ir.errors import Conflict, StoreUnavailable
from mlxctl.ir.policy import ApiKey
from mlxctl.server.policy import SettingsPolicy
from mlxctl.server.policy.store_backend import StoredPolicy
from mlxctl.state.stores import AgentStore, CapabilityStore, ResponseStore, SessionStore, SpeedStore
from mlxctl.state.stores.damage import set_aside_files
from mlxctl.state.stores.policy import PolicyStore
from tests.state.stores.test_damaged_files import RECORD, SPEED, response, session

Damage = Callable[[Path], object]


class Clock:
    """A clock that stands a second later at each look."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        self.seconds += 1
        return self.seconds


def use_agents(agents: AgentStore) -> None:
    for name in ("one", "two"):
        if agents.find("ann", name) is None:
            agents.create("ann", name, model="m", settings=b"{}")
    begun = agents.begin_turn("ann", "one")
    assert begun is not None
    agents.end_turn(begun[0], [b"message" * 500], model="m")
    assert len(agents.page("ann", after=None, limit=9)[0]) == 2
    assert agents.delete("ann", "two")


def use_responses(responses: ResponseStore) -> None:
    for number in range(3):
        if responses.find("ann", f"resp{number}") is None:
            responses.save("ann", response(number))
    assert responses.conversation("ann", "resp2") is not None
    assert responses.delete("ann", "resp2")


def use_capabilities(capabilities: CapabilityStore) -> None:
    capabilities.save(RECORD)
    assert capabilities.find("aa") is not None


def use_speeds(speeds: SpeedStore) -> None:
    speeds.save(SPEED)
    assert speeds.find("aa", "mac") == SPEED


def use_sessions(sessions: SessionStore) -> None:
    for number in range(3):
        sessions.save(session(f"chat{number}"))
    assert len(sessions.search("hello")) == 3
    sessions.delete("chat1")


STORES: dict[str, tuple[Callable[[Path], Any], Callable[[Any], None]]] = {
    "agents": (lambda path: AgentStore(path, max_agents=9), use_agents),
    "responses": (lambda path: ResponseStore(path, max_bytes=10**6, ttl_seconds=10**6), use_responses),
    "capabilities": (CapabilityStore, use_capabilities),
    "speeds": (SpeedStore, use_speeds),
    "sessions": (SessionStore, use_sessions),
}


def change(path: Path, *statements: str) -> None:
    """Run statements on each table of the file, as another program would."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        tables = connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        ).fetchall()
        for (table,) in tables:
            for statement in statements:
                connection.execute(statement.format(table=table))


def delete_directory(path: Path) -> None:
    shutil.rmtree(path.parent)


def become_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, Damage] = {
    "file deleted": Path.unlink,
    "directory deleted": delete_directory,
    "directory in its place": become_directory,
    "emptied": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:5000]),
    "noise": lambda path: path.write_bytes(b"no database, but long enough to be taken for one" * 100),
    "pages zeroed": lambda path: path.write_bytes(
        path.read_bytes()[:4096] + bytes(path.stat().st_size - 4096)
    ),
    "another schema": lambda path: (path.unlink(), change_schema(path)),
    "tables dropped": lambda path: change(path, "DROP TABLE {table}"),
    "columns added": lambda path: change(path, "ALTER TABLE {table} ADD COLUMN more TEXT"),
    "views in place of tables": lambda path: change(
        path, "ALTER TABLE {table} RENAME TO was_{table}", "CREATE VIEW {table} AS SELECT * FROM was_{table}"
    ),
    "triggers that raise": lambda path: change(
        path, "CREATE TRIGGER stop_{table} BEFORE INSERT ON {table} BEGIN SELECT RAISE(ABORT, 'no'); END"
    ),
}


def change_schema(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE other (a, b); PRAGMA user_version = 1")


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", STORES)
def test_open_store_answers_after_damage(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, damage: str
) -> None:
    create, use = STORES[name]
    path = tmp_path / "state" / f"{name}.sqlite"
    store = create(path)
    use(store)
    DAMAGES[damage](path)
    use(store)
    assert len(caplog.messages) <= 1
    assert all(str(path) in line for line in caplog.messages)
    store.close()
    again = create(path)
    use(again)
    again.close()


def test_messages_of_a_lost_agent_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "agents.sqlite"
    agents = AgentStore(path, max_agents=9)
    agent = agents.create("ann", "one", model="m", settings=b"{}")
    path.unlink()
    agents.create("bob", "one", model="m", settings=b"{}")
    with pytest.raises(Conflict):
        agents.messages(agent)
    # The new agent has the number of the lost one.
    with pytest.raises(Conflict):
        agents.end_turn(agent, [b"from ann"], model="m")
    assert agents.begin_turn("bob", "one")[1] == ()  # type: ignore[index]
    agents.close()


def key(name: str) -> ApiKey:
    return ApiKey(id=name, name=name, sha256=name[0] * 64, scopes=(), created=1.0)


@pytest.mark.parametrize("damage", ["file deleted", "directory deleted", "emptied", "cut", "noise"])
@pytest.mark.parametrize("passphrase", [None, "correct horse"])
def test_keys_in_use_are_written_again_with_the_next_change(
    tmp_path: Path, damage: str, passphrase: str | None
) -> None:
    path = tmp_path / "state" / "policy.sqlite"
    store = PolicyStore(path, passphrase)
    policy = StoredPolicy(store, SettingsPolicy((), (), {}), clock=Clock())
    policy.put_key(key("ann"))
    DAMAGES[damage](path)
    assert policy.find_key("a" * 64) is not None
    assert set(policy.last_used()) == {"ann"}

    policy.put_key(key("bob"))
    assert [kept.name for kept in policy.all_keys()] == ["ann", "bob"]
    again = StoredPolicy(PolicyStore(path, passphrase), SettingsPolicy((), (), {}))
    assert [kept.name for kept in again.all_keys()] == ["ann", "bob"]
    assert len(set_aside_files(path)) == (damage not in ("file deleted", "directory deleted"))


def test_storing_uses_does_not_empty_a_deleted_policy_store(tmp_path: Path) -> None:
    path = tmp_path / "policy.sqlite"
    store = PolicyStore(path)
    store.put("key", "ann", b"{}")
    path.unlink()
    store.record_uses({"ann": 1.0})
    assert not path.exists()


def test_locked_policy_store_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlxctl.state.stores.database_file._LOCK_SECONDS", 0.1)
    path = tmp_path / "policy.sqlite"
    policy = StoredPolicy(PolicyStore(path), SettingsPolicy((), (), {}))
    policy.put_key(key("ann"))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreUnavailable, match="locked"):
            policy.put_key(key("bob"))
    assert set_aside_files(path) == []
