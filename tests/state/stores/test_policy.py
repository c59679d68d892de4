"""The policy store: encryption, wrong passphrases, changed bytes, other processes."""

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from mlxctl.ir.errors import SettingsError, StoreUnavailable
from mlxctl.state.stores import database_file, policy
from mlxctl.state.stores.policy import _MIGRATIONS, _TOTAL, PolicyStore
from mlxctl.state.stores.rows import checksum

SECRET_NAME = b'{"name": "the-key-of-the-safe"}'


def change_knowing_the_checksum(path: Path, statement: str, *values: object) -> None:
    """Change the file as a program would that also corrects the checksum."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.create_function("checksum", -1, checksum)
        connection.execute(statement, values)
        connection.execute(f"UPDATE totals SET checksum = {_TOTAL}")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "policy.sqlite"


def test_records_are_read_back_and_replaced(path: Path) -> None:
    store = PolicyStore(path)
    assert store.read() == []
    assert not path.exists()
    before = store.version()
    for value in (b"1", b"2"):
        store.put("key", "a", value)
    assert [tuple(record) for record in PolicyStore(path).read()] == [("key", "a", b"2")]
    assert store.version() != before
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_full_store_still_replaces_its_records(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "MAX_RECORDS", 2)
    store = PolicyStore(path)
    for name, value in (("a", b"1"), ("b", b"1"), ("a", b"revoked")):
        store.put("key", name, value)
    with pytest.raises(StoreUnavailable, match="2 records"):
        store.put("key", "c", b"1")
    assert [record.value for record in store.read()] == [b"revoked", b"1"]


def test_encrypted_values_are_not_in_the_file(path: Path) -> None:
    PolicyStore(path).put("key", "a", SECRET_NAME)
    assert SECRET_NAME in path.read_bytes()
    store = PolicyStore(path, "correct horse")
    assert store.read()[0].value == SECRET_NAME
    store.put("key", "b", SECRET_NAME)
    assert SECRET_NAME not in path.read_bytes()
    assert [record.value for record in PolicyStore(path, "correct horse").read()] == [SECRET_NAME] * 2


@pytest.mark.parametrize("passphrase", [None, "wrong"])
def test_wrong_passphrase_is_one_clear_line(path: Path, passphrase: str | None) -> None:
    PolicyStore(path, "correct horse").put("key", "a", SECRET_NAME)
    with pytest.raises(SettingsError, match=r"passphrase does not open|is encrypted; set") as refused:
        PolicyStore(path, passphrase).read()
    assert "\n" not in str(refused.value)


def test_any_changed_byte_is_refused(path: Path) -> None:
    PolicyStore(path, "correct horse").put("key", "a", SECRET_NAME)
    store = PolicyStore(path, "correct horse")
    store.read()
    with closing(sqlite3.connect(path)) as connection, connection:
        ((sealed,),) = connection.execute("SELECT value FROM records").fetchall()
    for place in range(0, len(sealed), 3):
        changed = bytes(byte ^ (number == place) for number, byte in enumerate(sealed))
        change_knowing_the_checksum(path, "UPDATE records SET value = ?", changed)
        with pytest.raises(SettingsError, match="was changed by another program"):
            store.read()


def test_value_moved_to_another_key_is_refused(path: Path) -> None:
    store = PolicyStore(path, "correct horse")
    store.put("key", "a", SECRET_NAME)
    change_knowing_the_checksum(path, "UPDATE records SET id = 'b'")
    with pytest.raises(SettingsError, match="was changed"):
        store.read()


def test_damaged_store_is_not_replaced(path: Path) -> None:
    path.write_bytes(b"no database at all, but long enough to be read as one" * 40)
    with pytest.raises(StoreUnavailable, match=r"policy\.sqlite"):
        PolicyStore(path).read()
    assert path.read_bytes().startswith(b"no database")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE records SET value = substr(value, 2)",
        "UPDATE records SET id = 'b' WHERE id = 'a'",
        "DELETE FROM records WHERE id = 'a'",
        "INSERT INTO facts VALUES ('other', x'00')",
        "DELETE FROM totals",
    ],
)
def test_any_changed_or_missing_row_is_refused(path: Path, statement: str) -> None:
    store = PolicyStore(path)
    for name in ("a", "z"):
        store.put("key", name, SECRET_NAME)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)
    with pytest.raises(StoreUnavailable, match="do not match their checksum"):
        store.read()
    with pytest.raises(StoreUnavailable, match="do not match their checksum"):
        store.put("key", "c", SECRET_NAME)


def test_missing_salt_of_an_encrypted_store_is_refused(path: Path) -> None:
    store = PolicyStore(path, "correct horse")
    store.put("key", "a", SECRET_NAME)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM facts")
    with pytest.raises(StoreUnavailable, match="do not match their checksum"):
        store.read()


def test_emptied_store_is_refused_until_it_is_deleted(path: Path) -> None:
    store = PolicyStore(path)
    store.put("key", "a", SECRET_NAME)
    path.write_bytes(b"")
    with pytest.raises(StoreUnavailable, match="is empty; restore it"):
        store.read()
    path.unlink()
    assert store.read() == []


def test_store_of_an_earlier_version_gets_a_checksum(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(_MIGRATIONS[0] + "; PRAGMA user_version = 1")
    connection.execute("INSERT INTO records VALUES ('key', 'a', ?)", (SECRET_NAME,))
    connection.execute("INSERT INTO uses VALUES ('a', 7.5)")
    connection.commit()
    connection.close()
    store = PolicyStore(path)
    assert [record.value for record in store.read()] == [SECRET_NAME]
    assert store.last_uses() == {"a": 7.5}
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE uses SET last_used = 9.5")
    assert store.last_uses() == {}


@pytest.mark.parametrize("name", ["policy.sqlite", "policy.sqlite-journal"])
def test_file_that_another_user_created_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    PolicyStore(path).put("key", "a", b"1")
    planted = path.with_name(name)
    planted.touch()
    owners = database_file._owners
    monkeypatch.setattr(database_file, "_owners", lambda file: {54321} if file == planted else owners(file))
    with pytest.raises(StoreUnavailable, match=f"{name} belongs to another user"):
        PolicyStore(path).read()
