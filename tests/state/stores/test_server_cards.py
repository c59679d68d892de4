"""Cards of running servers: written, found, and left behind."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mlxctl.state.stores.server_cards import CardFile, ServedDirectory, ServerCard, running_cards

CARD = ServerCard(
    pid=os.getpid(), url="http://127.0.0.1:8080", models=(ServedDirectory(name="tiny", path="/models/tiny"),)
)


def test_a_card_is_found_while_its_server_runs(tmp_path: Path) -> None:
    file = CardFile(tmp_path / "servers", port=8080)
    file.write(CARD)
    file.write(later := ServerCard(pid=CARD.pid, url=CARD.url))
    assert running_cards(tmp_path / "servers") == [later]
    file.close()
    assert running_cards(tmp_path / "servers") == []


def test_only_its_owner_can_read_a_card(tmp_path: Path) -> None:
    file = CardFile(tmp_path / "servers", port=8080)
    file.write(CARD)
    (path,) = (tmp_path / "servers").iterdir()
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent)]
    assert modes == [0o600, 0o700]
    file.close()


def test_the_card_of_a_killed_server_is_ignored_and_removed(tmp_path: Path) -> None:
    program = (
        "import os, pathlib, sys; from mlxctl.state.stores.server_cards import *; "
        "CardFile(pathlib.Path(sys.argv[1]), port=1).write(ServerCard(pid=1, url='http://x:1')); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert (running_cards(tmp_path), len(list(tmp_path.iterdir()))) == ([], 1)
    file = CardFile(tmp_path, port=8080)
    file.write(CARD)
    assert len(list(tmp_path.iterdir())) == 1
    file.close()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"pid": 1}', b"\xff", b'{"pid": "x", "url": 1}'])
def test_a_damaged_card_is_no_card(tmp_path: Path, content: bytes) -> None:
    file = CardFile(tmp_path, port=8080)
    file.write(CARD)
    (path,) = tmp_path.iterdir()
    path.write_bytes(content)
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "link.json").symlink_to(path)
    assert running_cards(tmp_path) == []
    file.close()
