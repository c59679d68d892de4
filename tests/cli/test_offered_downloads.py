"""`serve` and `chat` offer on a terminal to download a missing model."""

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlxctl.library.demo import MODEL_DIR
from tests.library.tiny_hub import TinyHub, running

REPOSITORY = "mlx-community/Qwen3-4B-4bit"


@pytest.fixture(scope="module")
def hub() -> Iterator[TinyHub]:
    files = {file.name: file.read_bytes() for file in MODEL_DIR.iterdir()}
    with running(TinyHub(files={REPOSITORY: files})) as started:
        yield started


def on_terminal(hub: TinyHub, cache: Path, *arguments: str, typed: str) -> tuple[int, str]:
    """Return a command's exit code and what the terminal shows."""
    leader, terminal = pty.openpty()
    variables = {"MLXCTL_SERVER_PORT": "1", "HOME": str(cache), "TERM": "xterm", **hub.server_settings(cache)}
    process = subprocess.Popen(
        [sys.executable, "-m", "mlxctl", *arguments],
        stdin=terminal,
        stdout=subprocess.DEVNULL,
        stderr=terminal,
        env={**os.environ, **variables},
    )
    os.close(terminal)
    os.write(leader, typed.encode())
    shown = b""
    # Reading fails when the last process has closed the terminal.
    while piece := _read(leader):
        shown += piece
    os.close(leader)
    return process.wait(timeout=60), " ".join(shown.decode().split())


def _read(leader: int) -> bytes:
    try:
        return os.read(leader, 65536)
    except OSError:
        return b""


@pytest.mark.parametrize("arguments", [("serve", "qwen3:4b"), ("chat", "-m", "qwen3:4b", "Hello!")])
def test_a_download_that_is_not_wanted_ends_the_command(
    hub: TinyHub, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    hub.asked.clear()
    code, shown = on_terminal(hub, tmp_path, *arguments, typed="n\n")
    size = sum(len(content) for content in hub.files[REPOSITORY].values())
    assert code == 1
    assert f"{REPOSITORY} is not on this machine. Download it ({size / 1e6:.2f} MB)? [y/N]" in shown
    assert hub.fetched() == []


def test_a_wanted_model_is_downloaded_and_used(hub: TinyHub, tmp_path: Path) -> None:
    address = f"https://hf.co/{REPOSITORY}"
    code, shown = on_terminal(hub, tmp_path, "chat", "-m", address, "Hello!", typed="y\n")
    assert code == 0, shown
    assert "model.safetensors" in hub.fetched()
