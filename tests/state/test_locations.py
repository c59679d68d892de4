"""Where sockets go, and which directories other users can write."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mlxctl.ir.errors import SettingsError
from mlxctl.state import locations

NAME = f"mlxctl-{os.getuid()}"


@pytest.fixture
def bases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Places for sockets: `run`, `tmp` for /tmp, and `state`."""
    for name in ("tmp", "run", "state"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(locations, "_MAX_RUNTIME_BYTES", len(os.fsencode(tmp_path)) + 40)
    monkeypatch.setattr(locations, "_SHARED", str(tmp_path / "tmp"))
    monkeypatch.setattr(locations.tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def squat(directory: Path, kind: str, elsewhere: Path) -> None:
    """Take the name of the runtime directory, as others can in /tmp."""
    if kind == "file":
        directory.touch()
    elif kind == "link":
        elsewhere.mkdir(exist_ok=True)
        directory.symlink_to(elsewhere)
    else:
        directory.symlink_to(directory)


def test_sockets_are_in_the_runtime_directory_of_their_owner(bases: Path) -> None:
    directory = locations.runtime_directory()
    assert directory == bases / "run" / NAME == locations.runtime_directory()
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


@pytest.mark.parametrize("kind", ["file", "link", "loop"])
def test_name_that_another_user_took_is_passed_over(bases: Path, kind: str) -> None:
    squat(bases / "run" / NAME, kind, bases / "elsewhere")
    assert locations.runtime_directory() == bases / "tmp" / NAME
    (bases / "tmp" / NAME).rmdir()
    squat(bases / "tmp" / NAME, kind, bases / "elsewhere")
    assert locations.runtime_directory() == bases / "state" / "mlxctl" / "run"
    assert not list(bases.glob("elsewhere/*"))


def test_directory_that_others_can_replace_is_passed_over(bases: Path) -> None:
    (bases / "run").chmod(0o777)
    assert locations.runtime_directory() == bases / "tmp" / NAME
    (bases / "run").chmod(0o1777)
    assert locations.runtime_directory() == bases / "run" / NAME


def test_directory_of_another_user_is_one_line_that_names_the_variable(
    bases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every directory is then another user's.
    monkeypatch.setattr(locations.os, "getuid", lambda: 54321)
    for base in ("run", "tmp"):
        (bases / base / "mlxctl-54321").mkdir()
    with pytest.raises(SettingsError, match="set XDG_RUNTIME_DIR to a directory of yours") as refused:
        locations.runtime_directory()
    assert "\n" not in str(refused.value)
    assert str(refused.value).count("belongs to another user") == 3


def test_server_without_a_place_for_sockets_ends_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "mlxctl").mkdir()
    (tmp_path / "state" / "mlxctl" / "run").touch()
    places = {"XDG_RUNTIME_DIR": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    program = (
        "import sys; from mlxctl.state import locations; locations._MAX_RUNTIME_BYTES = 1\n"
        "from mlxctl.__main__ import main; sys.argv = ['mlxctl', 'serve', '--port', '0']; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **places}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("mlxctl: no directory for sockets can be used")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("mode", "left"), [(0o777, 0o755), (0o772, 0o750), (0o1777, 0o1755)])
def test_own_directory_loses_the_write_permission_of_others(tmp_path: Path, mode: int, left: int) -> None:
    tmp_path.chmod(mode)
    assert "could be written by every user" in (locations.keep_others_out(tmp_path) or "")
    assert stat.S_IMODE(tmp_path.stat().st_mode) == left
    assert locations.keep_others_out(tmp_path) is None


def test_directory_of_a_group_is_a_choice(tmp_path: Path) -> None:
    tmp_path.chmod(0o770)
    assert locations.keep_others_out(tmp_path) is None
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o770


def test_directory_of_another_user_is_only_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o777)
    monkeypatch.setattr(locations.os, "getuid", lambda: 54321)
    assert "its owner can fix that with chmod go-w" in (locations.keep_others_out(tmp_path) or "")
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o777
    assert locations.keep_others_out(tmp_path / "missing") is None
