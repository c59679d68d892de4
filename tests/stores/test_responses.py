"""Answers are kept for their owner, for a while, and within a limit; a chain is whole or not there."""

import sqlite3
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from mlxctl.errors import StoreError
from mlxctl.ir import StoredItem, StoredResponse
from mlxctl.stores import ResponseStore, StoreFacts
from mlxctl.stores.responses import _MIGRATIONS

TTL_SECONDS = 60.0


class Clock:
    """Time that a test moves."""

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
    """An answer called `name` with an item in and an item out, `size` bytes together."""
    asked, said = StoredItem(id=f"{name}-in", body=b"?"), StoredItem(id=f"{name}-out", body=b"!" * (size - 2))
    return StoredResponse(id=name, previous_id=after, body=b"{", input=(asked,), output=(said,))


def ids(items: tuple[StoredItem, ...] | None) -> list[str]:
    assert items is not None
    return [item.id for item in items]


def test_an_answer_comes_back_as_it_was(store: ResponseStore) -> None:
    store.save("ann", answer("a"))
    assert store.find("ann", "a") == answer("a")
    assert store.find("ann", "b") is None


def test_nobody_sees_what_another_caller_asked(store: ResponseStore) -> None:
    store.save("ann", answer("a"))
    assert store.find("bob", "a") is None
    assert store.conversation("bob", "a") is None
    assert store.items("bob", ["a-out"]) == {}
    assert not store.delete("bob", "a")
    assert store.find("ann", "a") is not None


def test_a_conversation_is_every_item_oldest_first(store: ResponseStore) -> None:
    store.save("ann", answer("a"))
    store.save("ann", answer("b", after="a"))
    store.save("ann", answer("c", after="b"))
    assert ids(store.conversation("ann", "c")) == ["a-in", "a-out", "b-in", "b-out", "c-in", "c-out"]
    assert ids(store.conversation("ann", "b")) == ["a-in", "a-out", "b-in", "b-out"]


def test_two_answers_may_go_on_from_one(store: ResponseStore) -> None:
    store.save("ann", answer("a"))
    store.save("ann", answer("left", after="a"))
    store.save("ann", answer("right", after="a"))
    assert ids(store.conversation("ann", "left"))[:2] == ids(store.conversation("ann", "right"))[:2]


def test_a_deleted_answer_is_gone_and_later_ones_can_be_gone_on_from(store: ResponseStore) -> None:
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


def test_what_was_deleted_leaves_the_disk_with_the_last_answer_that_builds_on_it(
    store: ResponseStore, path: Path
) -> None:
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


def test_an_answer_whose_predecessor_was_deleted_while_it_was_made_can_be_gone_on_from(
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


def test_looking_at_the_last_answer_keeps_what_it_builds_on(store: ResponseStore, clock: Clock) -> None:
    store.save("ann", answer("a"))
    store.save("ann", answer("b", after="a"))
    for _ in range(3):
        clock.seconds += TTL_SECONDS - 1
        assert store.find("ann", "b") is not None
    assert len(ids(store.conversation("ann", "b"))) == 4


def test_the_files_stay_below_the_limit_with_all_that_sqlite_keeps_beside_them(
    path: Path, clock: Clock
) -> None:
    limit = 1_000_000
    store = ResponseStore(path, max_bytes=limit, ttl_seconds=TTL_SECONDS, now=clock)
    for number in range(120):
        store.save("ann", answer(f"r{number}", size=20_000 + 7919 * number % 60_000))
        assert sum(file.stat().st_size for file in path.parent.iterdir()) <= limit
    assert store.find("ann", "r119") is not None
    assert store.facts().num_bytes > limit / 2
    store.close()


def test_a_store_of_an_earlier_version_is_taken_over(path: Path, clock: Clock) -> None:
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(f"{_MIGRATIONS[0]}; PRAGMA user_version = 1")
        connection.execute("INSERT INTO responses VALUES ('ann', 'a', NULL, x'7B', 2, ?)", (clock(),))
        connection.execute("INSERT INTO items VALUES ('ann', 'a', 0, 0, 'a-in', x'3F')")
    store = ResponseStore(path, max_bytes=1000, ttl_seconds=TTL_SECONDS, now=clock)
    assert ids(store.conversation("ann", "a")) == ["a-in"]
    store.close()


def test_deleting_takes_the_items_along(store: ResponseStore) -> None:
    store.save("ann", answer("a"))
    assert store.delete("ann", "a")
    assert not store.delete("ann", "a")
    assert store.items("ann", ["a-in", "a-out"]) == {}
    assert store.facts() == StoreFacts(num_responses=0, num_bytes=0)


def test_single_items_are_found_by_their_ids(store: ResponseStore) -> None:
    store.save("ann", answer("a"))
    assert store.items("ann", ["a-in", "nothing"]) == {"a-in": b"?"}


def test_what_is_not_used_is_gone_in_time_and_use_keeps_the_whole_chain(
    store: ResponseStore, clock: Clock
) -> None:
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


def test_what_was_used_longest_ago_makes_way(store: ResponseStore, clock: Clock) -> None:
    for name in "abc":
        store.save("ann", answer(name, size=299))
        clock.seconds += 1
    store.find("ann", "a")
    clock.seconds += 1
    store.save("bob", answer("d", size=299))
    assert [name for name in "abc" if store.find("ann", name)] == ["a", "c"]
    assert store.facts() == StoreFacts(num_responses=3, num_bytes=897)


def test_what_is_larger_than_everything_is_not_kept_and_costs_nobody_a_place(store: ResponseStore) -> None:
    store.save("ann", answer("a"))
    store.save("ann", answer("huge", size=1001))
    assert store.find("ann", "huge") is None
    assert store.find("ann", "a") is not None


def test_another_process_finds_what_this_one_kept(store: ResponseStore, path: Path, clock: Clock) -> None:
    store.save("ann", answer("a"))
    other = ResponseStore(path, max_bytes=1000, ttl_seconds=TTL_SECONDS, now=clock)
    assert other.find("ann", "a") is not None
    other.save("ann", answer("b", after="a"))
    other.close()
    assert len(ids(store.conversation("ann", "b"))) == 4


def test_many_threads_may_ask_at_once(store: ResponseStore) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: store.save("ann", answer(f"r{number}")), range(40)))
        found = list(pool.map(lambda number: store.find("ann", f"r{number}"), range(40)))
    assert all(found)


def test_nothing_is_made_before_the_first_use_and_then_only_for_its_owner(
    store: ResponseStore, path: Path
) -> None:
    assert store.facts().num_responses == 0
    assert not path.exists()
    store.save("ann", answer("a"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_file_that_cannot_be_used_is_told(path: Path) -> None:
    path.parent.parent.mkdir(parents=True)
    path.parent.write_bytes(b"in the place of the directory")
    store = ResponseStore(path, max_bytes=1000, ttl_seconds=TTL_SECONDS)
    with pytest.raises(StoreError, match=r"responses\.sqlite"):
        store.find("ann", "a")


def test_a_file_of_a_newer_version_is_left_alone(store: ResponseStore, path: Path) -> None:
    store.save("ann", answer("a"))
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreError, match="newer mlxctl"):
        store.find("ann", "a")
