"""Stored chats: search, lookup by id prefix, and the limit."""

from pathlib import Path

from mlxctl.state.stores import Session, SessionStore, SessionSummary


def session(chat_id: str, *, title: str = "A title", text: str = "", used_at: float = 0.0) -> Session:
    summary = SessionSummary(
        id=chat_id, title=title, model="a model", started_at=0.0, used_at=used_at, num_messages=2
    )
    return Session(summary=summary, text=text, body=f"body of {chat_id}".encode())


def test_chat_is_found_by_id_prefix(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "chats.db")
    store.save(session("abc1"))
    store.save(session("abd2"))
    assert store.find("abc") == session("abc1")
    assert store.find("ab") is None, "there are two"
    assert store.find("") is None


def test_search_needs_all_words_and_sorts_by_last_use(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "chats.db")
    store.save(session("1", title="Sailing", text="the sea is 100% blue", used_at=1))
    store.save(session("2", title="Fishing", text="the sea is deep", used_at=2))
    assert [found.id for found in store.search()] == ["2", "1"]
    assert [found.id for found in store.search("SEA sail")] == ["1"]
    assert [found.id for found in store.search("100%")] == ["1"], "no sign is a wildcard"
    assert store.search("_") == ()


def test_saving_replaces_and_deleting_removes(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "chats.db")
    store.save(session("1", title="Old"))
    store.save(session("1", title="New"))
    assert [found.title for found in store.search()] == ["New"]
    store.delete("1")
    assert store.search() == ()


def test_least_recently_used_chat_is_evicted(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "chats.db", max_sessions=2)
    for number in (3, 1, 2):
        store.save(session(str(number), used_at=number))
    assert [found.id for found in store.search()] == ["3", "2"]


def test_no_file_before_the_first_save(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "chats.db")
    assert store.search() == ()
    assert not list(tmp_path.iterdir())
    store.save(session("1"))
    assert (tmp_path / "chats.db").stat().st_mode & 0o777 == 0o600
