"""The policy store: encryption, wrong passphrases, changed bytes, other processes."""

import sqlite3
import stat
from pathlib import Path

import pytest

from mlxctl.errors import SettingsError, StoreUnavailable
from mlxctl.stores.policy import PolicyStore

SECRET_NAME = b'{"name": "the-key-of-the-safe"}'


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
    with sqlite3.connect(path) as connection:
        ((sealed,),) = connection.execute("SELECT value FROM records").fetchall()
    for place in range(len(sealed)):
        changed = bytes(byte ^ (number == place) for number, byte in enumerate(sealed))
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE records SET value = ?", (changed,))
        with pytest.raises(SettingsError, match="was changed by another program"):
            store.read()


def test_value_moved_to_another_key_is_refused(path: Path) -> None:
    store = PolicyStore(path, "correct horse")
    store.put("key", "a", SECRET_NAME)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE records SET id = 'b'")
    with pytest.raises(SettingsError, match="was changed"):
        store.read()


def test_damaged_store_is_not_replaced(path: Path) -> None:
    path.write_bytes(b"no database at all, but long enough to be read as one" * 40)
    with pytest.raises(StoreUnavailable, match=r"policy\.sqlite"):
        PolicyStore(path).read()
    assert path.read_bytes().startswith(b"no database")
