"""Chats that are kept: found by their words, taken up by the beginning of their id, and no more than fit."""

from pathlib import Path

from mlxctl.stores import Session, SessionStore, SessionSummary


def session(session_id: str, *, title: str = "A title", text: str = "", used_at: float = 0.0) -> Session:
    summary = SessionSummary(
        id=session_id, title=title, model="a model", started_at=0.0, used_at=used_at, num_messages=2
    )
    return Session(summary=summary, text=text, body=f"body of {session_id}".encode())


def test_a_chat_is_found_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "chats.db")
    store.save(session("abc1"))
    store.save(session("abd2"))
    assert store.find("abc") == session("abc1")
    assert store.find("ab") is None, "there are two"
    assert store.find("") is None


def test_a_search_wants_all_words_in_title_or_text_and_shows_the_last_first(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "chats.db")
    store.save(session("1", title="Sailing", text="the sea is 100% blue", used_at=1))
    store.save(session("2", title="Fishing", text="the sea is deep", used_at=2))
    assert [found.id for found in store.search()] == ["2", "1"]
    assert [found.id for found in store.search("SEA sail")] == ["1"]
    assert [found.id for found in store.search("100%")] == ["1"], "no sign is a wildcard"
    assert store.search("_") == ()


def test_saving_again_replaces_and_deleting_forgets(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "chats.db")
    store.save(session("1", title="Old"))
    store.save(session("1", title="New"))
    assert [found.title for found in store.search()] == ["New"]
    store.delete("1")
    assert store.search() == ()


def test_the_chat_that_was_used_longest_ago_makes_room(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "chats.db", max_sessions=2)
    for number in (3, 1, 2):
        store.save(session(str(number), used_at=number))
    assert [found.id for found in store.search()] == ["3", "2"]


def test_nothing_is_written_before_something_is_saved(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "chats.db")
    assert store.search() == ()
    assert not list(tmp_path.iterdir())
    store.save(session("1"))
    assert (tmp_path / "chats.db").stat().st_mode & 0o777 == 0o600
