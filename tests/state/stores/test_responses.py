"""Stored responses: ownership, expiry, size limits and chains."""

import sqlite3
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from mlxctl.ir import StoredItem, StoredResponse
from mlxctl.ir.errors import StoreError
from mlxctl.state.stores import ResponseStore, StoreFacts
from mlxctl.state.stores.responses import _MIGRATIONS
from mlxctl.state.stores.steady_clock import SteadyClock

TTL_SECONDS = 60.0


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "made" / "on demand" / "responses.sqlite"


@pytest.fixture
def store(path: Path, clock: Clock) -> Iterator[ResponseStore]:
    store = ResponseStore(path, max_bytes=1000, ttl_seconds=TTL_SECONDS, now=clock)
    yield store
    store.close()


def answer(name: str, *, after: str | None = None, size: int = 10) -> StoredResponse:
    """A response `name` with two items of `size` bytes together."""
    input_item, output_item = (
        StoredItem(id=f"{name}-in", body=b"?"),
        StoredItem(id=f"{name}-out", body=b"!" * (size - 2)),
    )
    return StoredResponse(id=name, previous_id=after, body=b"{", input=(input_item,), output=(output_item,))


def ids(items: tuple[StoredItem, ...] | None) -> list[str]:
    assert items is not None
    return [item.id for item in items]


def test_response_round_trips(store: ResponseStore) -> None:
    store.save("ann", answer("a"))
    assert store.find("ann", "a") == answer("a")
    assert store.find("ann", "b") is None


def test_caller_cannot_read_another_callers_response(store: ResponseStore) -> None:
    store.save("ann", answer("a"))
    assert store.find("bob", "a") is None
    assert store.conversation("bob", "a") is None
    assert store.items("bob", ["a-out"]) == {}
    assert not store.delete("bob", "a")
    assert store.find("ann", "a") is not None


def test_conversation_has_every_item_oldest_first(store: ResponseStore) -> None:
    store.save("ann", answer("a"))
    store.save("ann", answer("b", after="a"))
    store.save("ann", answer("c", after="b"))
    assert ids(store.conversation("ann", "c")) == ["a-in", "a-out", "b-in", "b-out", "c-in", "c-out"]
    assert ids(store.conversation("ann", "b")) == ["a-in", "a-out", "b-in", "b-out"]


def test_two_responses_may_continue_one(store: ResponseStore) -> None:
    store.save("ann", answer("a"))
    store.save("ann", answer("left", after="a"))
    store.save("ann", answer("right", after="a"))
    assert ids(store.conversation("ann", "left"))[:2] == ids(store.conversation("ann", "right"))[:2]


def test_later_responses_survive_deletion_of_an_earlier_one(store: ResponseStore) -> None:
    for name, before in (("a", None), ("b", "a"), ("c", "b")):
        store.save("ann", answer(name, after=before))
    assert store.delete("ann", "a")
    assert store.delete("ann", "b")
    assert not store.delete("ann", "a")
    assert store.find("ann", "a") is None
    assert store.conversation("ann", "b") is None
    assert store.items("ann", ["a-in", "b-out"]) == {}
    assert ids(store.conversation("ann", "c")) == ["a-in", "a-out", "b-in", "b-out", "c-in", "c-out"]
    assert store.facts().num_responses == 1


def test_deleted_response_is_erased_with_its_last_descendant(store: ResponseStore, path: Path) -> None:
    secret = StoredItem(id="secret", body=b"the secret word")
    store.save(
        "ann", StoredResponse(id="a", previous_id=None, body=b"{secret body", input=(secret,), output=())
    )
    store.save("ann", answer("b", after="a"))
    store.delete("ann", "a")
    assert b"secret word" in path.read_bytes()
    assert b"secret body" not in path.read_bytes()
    store.delete("ann", "b")
    assert b"secret" not in path.read_bytes()
    assert store.facts() == StoreFacts(num_responses=0, num_bytes=0)


def test_response_survives_deletion_of_its_predecessor_meanwhile(
    store: ResponseStore,
) -> None:
    store.save("ann", answer("a"))
    earlier = store.conversation("ann", "a")
    assert earlier is not None
    store.delete("ann", "a")
    store.save("ann", answer("b", after="a"), earlier=earlier)
    assert store.find("ann", "a") is None
    assert ids(store.conversation("ann", "b")) == ["a-in", "a-out", "b-in", "b-out"]
    store.delete("ann", "b")
    assert store.facts() == StoreFacts(num_responses=0, num_bytes=0)
    store.save("ann", answer("c", after="nothing"))
    assert store.conversation("ann", "c") is None


def test_reading_a_response_counts_as_use_of_its_ancestors(store: ResponseStore, clock: Clock) -> None:
    store.save("ann", answer("a"))
    store.save("ann", answer("b", after="a"))
    for _ in range(3):
        clock.seconds += TTL_SECONDS - 1
        assert store.find("ann", "b") is not None
    assert len(ids(store.conversation("ann", "b"))) == 4


def test_files_with_side_files_stay_below_the_limit(path: Path, clock: Clock) -> None:
    limit = 1_000_000
    store = ResponseStore(path, max_bytes=limit, ttl_seconds=TTL_SECONDS, now=clock)
    for number in range(120):
        store.save("ann", answer(f"r{number}", size=20_000 + 7919 * number % 60_000))
        assert sum(file.stat().st_size for file in path.parent.iterdir()) <= limit
    assert store.find("ann", "r119") is not None
    assert store.facts().num_bytes > limit / 2
    store.close()


def test_store_of_an_earlier_version_is_migrated(path: Path, clock: Clock) -> None:
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(f"{_MIGRATIONS[0]}; PRAGMA user_version = 1")
        connection.execute("INSERT INTO responses VALUES ('ann', 'a', NULL, x'7B', 2, ?)", (clock(),))
        connection.execute("INSERT INTO items VALUES ('ann', 'a', 0, 0, 'a-in', x'3F')")
    store = ResponseStore(path, max_bytes=1000, ttl_seconds=TTL_SECONDS, now=clock)
    assert ids(store.conversation("ann", "a")) == ["a-in"]
    store.close()


def test_deleting_a_response_deletes_its_items(store: ResponseStore) -> None:
    store.save("ann", answer("a"))
    assert store.delete("ann", "a")
    assert not store.delete("ann", "a")
    assert store.items("ann", ["a-in", "a-out"]) == {}
    assert store.facts() == StoreFacts(num_responses=0, num_bytes=0)


def test_items_are_found_by_id(store: ResponseStore) -> None:
    store.save("ann", answer("a"))
    assert store.items("ann", ["a-in", "nothing"]) == {"a-in": b"?"}


def test_unused_responses_expire_and_use_keeps_the_chain(store: ResponseStore, clock: Clock) -> None:
    store.save("ann", answer("a"))
    store.save("ann", answer("b", after="a"))
    store.save("ann", answer("unused"))
    clock.seconds += TTL_SECONDS - 1
    assert store.conversation("ann", "b") is not None
    clock.seconds += TTL_SECONDS - 1
    assert store.find("ann", "unused") is None
    assert len(ids(store.conversation("ann", "b"))) == 4
    clock.seconds += TTL_SECONDS
    assert store.facts().num_responses == 0


def test_least_recently_used_response_is_evicted(store: ResponseStore, clock: Clock) -> None:
    for name in "abc":
        store.save("ann", answer(name, size=299))
        clock.seconds += 1
    store.find("ann", "a")
    clock.seconds += 1
    store.save("bob", answer("d", size=299))
    assert [name for name in "abc" if store.find("ann", name)] == ["a", "c"]
    assert store.facts() == StoreFacts(num_responses=3, num_bytes=897)


def test_too_large_response_is_not_stored_and_evicts_nothing(store: ResponseStore) -> None:
    store.save("ann", answer("a"))
    store.save("ann", answer("huge", size=1001))
    assert store.find("ann", "huge") is None
    assert store.find("ann", "a") is not None


def test_another_process_reads_stored_responses(store: ResponseStore, path: Path, clock: Clock) -> None:
    store.save("ann", answer("a"))
    other = ResponseStore(path, max_bytes=1000, ttl_seconds=TTL_SECONDS, now=clock)
    assert other.find("ann", "a") is not None
    other.save("ann", answer("b", after="a"))
    other.close()
    assert len(ids(store.conversation("ann", "b"))) == 4


def test_a_clock_that_jumps_and_returns_expires_nothing(path: Path) -> None:
    wall, elapsed = Clock(), Clock()
    store = ResponseStore(
        path, max_bytes=1000, ttl_seconds=TTL_SECONDS, now=SteadyClock(wall=wall, elapsed=elapsed)
    )
    store.save("ann", answer("a"))
    for jump in (10 * TTL_SECONDS, -20 * TTL_SECONDS):
        wall.seconds += jump
        store.save("ann", answer(f"after {jump}"))
        assert store.find("ann", "a") is not None
    elapsed.seconds += TTL_SECONDS + 1
    assert store.find("ann", "a") is None
    store.close()


def test_a_use_that_an_earlier_run_noted_in_the_future_counts_as_one_now(
    store: ResponseStore, clock: Clock
) -> None:
    clock.seconds += 100 * TTL_SECONDS
    store.save("ann", answer("a"))
    clock.seconds -= 100 * TTL_SECONDS
    store.save("ann", answer("b"))
    clock.seconds += TTL_SECONDS + 1
    assert store.find("ann", "a") is None


def test_store_is_thread_safe(store: ResponseStore) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: store.save("ann", answer(f"r{number}")), range(40)))
        found = list(pool.map(lambda number: store.find("ann", f"r{number}"), range(40)))
    assert all(found)


def test_file_is_created_at_first_use_and_owner_only(store: ResponseStore, path: Path) -> None:
    assert store.facts().num_responses == 0
    assert not path.exists()
    store.save("ann", answer("a"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_unusable_file_is_an_error(path: Path) -> None:
    path.parent.parent.mkdir(parents=True)
    path.parent.write_bytes(b"in the place of the directory")
    store = ResponseStore(path, max_bytes=1000, ttl_seconds=TTL_SECONDS)
    with pytest.raises(StoreError, match=r"responses\.sqlite"):
        store.find("ann", "a")


def test_file_of_a_newer_version_is_not_changed(store: ResponseStore, path: Path) -> None:
    store.save("ann", answer("a"))
    store.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreError, match="newer mlxctl"):
        store.find("ann", "a")
