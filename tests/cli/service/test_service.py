"""The background service: definition files and calls of system tools."""

import os
import plistlib
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mlxctl.cli import app
from mlxctl.cli.followed_log import FollowedLog
from mlxctl.cli.service import Launchd, ServiceDefinition, Systemd
from mlxctl.ir.errors import ServiceFailed

DEFINITION = ServiceDefinition(
    command=("/opt/my python/bin/python", "-m", "mlxctl", "serve", "--model", 'we"ird $HOME 100%'),
    directory=Path("/home/user/100% models"),
    log_file=Path("/home/user/service.log"),
    environment={"HF_HOME": "/data/my $models"},
)

SYSTEMCTL = """#!/bin/sh
echo "$*" >> "$HOME/calls"
[ "$2" = show ] && case "$4" in
  MainPID) [ -e "$HOME/ended" ] && echo 0 || echo 4711 ;;
  *) cat "$HOME/$4" ;;
esac
[ -e "$HOME/broken" ] && { echo "unit is masked" >&2; exit 1; }
exit 0
"""


@pytest.fixture(autouse=True)
def _starts_are_watched_for_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a server that ends does is there at once."""
    monkeypatch.setattr("mlxctl.cli.service.manager._START_SECONDS", 0.05)
    monkeypatch.setattr("mlxctl.cli.service.manager._POLL_SECONDS", 0.01)


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A home of its own, with a `systemctl` that records its calls."""
    tool = tmp_path / "bin" / "systemctl"
    tool.parent.mkdir()
    tool.write_text(SYSTEMCTL)
    tool.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
    variables = {
        "PATH": f"{tool.parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "MLXCTL_SERVER_PORT": port,
    }
    for name in [name for name in os.environ if name.startswith(("MLXCTL_", "XDG_"))]:
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("mlxctl.cli.service.system_manager", Systemd)
    return variables


def service(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["service", *arguments])


def test_the_launchd_agent_starts_at_login_and_restarts_after_failures() -> None:
    plist = plistlib.loads(DEFINITION.launchd_plist())
    assert plist["ProgramArguments"] == list(DEFINITION.command)
    assert (plist["RunAtLoad"], plist["KeepAlive"]) == (True, {"SuccessfulExit": False})
    assert {plist["StandardOutPath"], plist["StandardErrorPath"]} == {"/home/user/service.log"}
    assert plist["ThrottleInterval"] == 10
    assert plist["WorkingDirectory"] == "/home/user/100% models"


def test_the_systemd_unit_escapes_quotes_variables_and_specifiers() -> None:
    unit = DEFINITION.systemd_unit()
    assert '"/opt/my python/bin/python" "-m" "mlxctl" "serve"' in unit
    assert r'"we\"ird $$HOME 100%%"' in unit
    assert 'Environment="HF_HOME=/data/my $models"' in unit
    assert "WorkingDirectory=/home/user/100%% models\n" in unit


def test_installing_writes_the_unit_and_enables_it(environment: dict[str, str], tmp_path: Path) -> None:
    done = service("install", "--", "--max-rows", "4")
    unit = tmp_path / ".config" / "systemd" / "user" / "mlxctl.cli.service"
    assert done.exit_code == 0, done.stderr
    assert '"serve" "--max-rows" "4"' in unit.read_text()
    assert unit.stat().st_mode & 0o777 == 0o600
    assert "--user enable --now mlxctl.cli.service\n" in (tmp_path / "calls").read_text()
    assert f"http://127.0.0.1:{environment['MLXCTL_SERVER_PORT']}" in done.stdout
    assert "loginctl enable-linger" in done.stdout
    log = tmp_path / ".local" / "state" / "mlxctl" / "service.log"
    assert (log.stat().st_mode & 0o777, log.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_second_installation_needs_force(environment: dict[str, str]) -> None:
    service("install")
    refused = service("install")
    assert refused.exit_code == 1
    assert "already installed" in refused.stderr
    assert "--force" in refused.stderr
    assert service("install", "--force").exit_code == 0


def test_status_and_removal(environment: dict[str, str], tmp_path: Path) -> None:
    assert service("status").exit_code == 1
    service("install")
    assert "running, pid 4711" in service("status").stdout
    assert service("uninstall").exit_code == 0
    assert "there is nothing to remove" in service("uninstall").stderr
    assert not (tmp_path / ".config" / "systemd" / "user" / "mlxctl.cli.service").exists()


def test_a_restart_stops_and_starts_the_installed_service(
    environment: dict[str, str], tmp_path: Path
) -> None:
    assert "not installed" in service("restart").stderr
    service("install")
    assert service("restart").stdout == "restarted\n"
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [call for call in calls if " show " not in call][-2:] == [
        "--user stop mlxctl.cli.service",
        "--user start mlxctl.cli.service",
    ]


def test_a_service_that_runs_is_not_started_again(environment: dict[str, str], tmp_path: Path) -> None:
    service("install")
    done = service("start")
    assert (done.exit_code, "already running, pid 4711" in done.stdout) == (0, True)
    assert "--user start mlxctl.cli.service" not in (tmp_path / "calls").read_text()


def test_status_says_why_the_last_server_ended(environment: dict[str, str], tmp_path: Path) -> None:
    service("install")
    (tmp_path / "ended").touch()
    (tmp_path / "SubState").write_text("auto-restart\n")
    (tmp_path / "Result").write_text("signal\n")
    assert "it was killed (signal)" in service("status").stdout
    (tmp_path / "Result").write_text("exit-code\n")
    log = tmp_path / ".local" / "state" / "mlxctl" / "service.log"
    log.write_text("mlxctl: the model cannot be loaded\n")
    status = service("status")
    assert status.exit_code == 1
    assert "will be started again; the server ended: the model cannot be loaded\n" in status.stdout


def test_a_server_that_ends_at_its_start_is_reported(environment: dict[str, str], tmp_path: Path) -> None:
    service("install")
    log = tmp_path / ".local" / "state" / "mlxctl" / "service.log"
    log.write_text("mlxctl: port 8080 on 127.0.0.1 is already in use\n\n")
    (tmp_path / "ended").touch()
    done = service("start")
    assert done.exit_code == 1
    assert done.stderr == (
        "mlxctl: the server ended at once: port 8080 on 127.0.0.1 is already in use; "
        "it is started again every 10 s until `mlxctl service stop`\n"
    )


def test_a_failing_system_tool_leaves_no_file(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    done = service("install")
    assert (done.exit_code, "unit is masked" in done.stderr) == (1, True)
    assert not (tmp_path / ".config" / "systemd" / "user" / "mlxctl.cli.service").exists()


def test_options_that_serve_refuses_are_refused_before_anything_is_written(
    environment: dict[str, str], tmp_path: Path
) -> None:
    unknown = service("install", "--modle", "x")
    keys = service("install", "--", "--api-key", "secret")
    port = service("install", "--port", "99999")
    assert "--port: expected at most 65535, got 99999" in port.stderr
    with socket.create_server(("127.0.0.1", 0)) as taken:
        busy = service("install", "--port", str(taken.getsockname()[1]))
    assert (busy.exit_code, "is already in use" in busy.stderr) == (1, True)
    assert "No such option: --modle" in unknown.stderr
    missing = service("install", "--model", "mlxctl-dem")
    assert (missing.exit_code, "did you mean mlxctl-demo?" in missing.stderr) == (1, True)
    assert "server.api_keys" in keys.stderr
    assert "secret" not in keys.stderr
    assert not (tmp_path / "calls").exists()


def test_logs_print_the_last_lines(environment: dict[str, str], tmp_path: Path) -> None:
    assert "there is no log yet" in service("logs").stderr
    log = tmp_path / ".local" / "state" / "mlxctl" / "service.log"
    log.parent.mkdir(parents=True)
    log.touch()
    assert "the log is empty" in service("logs").stderr
    log.write_text("one\ntwo\nthree\n")
    assert service("logs", "-n", "2").stdout == "two\nthree\n"
    log.with_name("service.log.1").write_text("a\nzero\n")
    assert service("logs", "-n", "4").stdout == "zero\none\ntwo\nthree\n"


LAUNCHCTL = """#!/bin/sh
echo "$1" >> "$HOME/calls"
[ -e "$HOME/remote" ] && { echo "Bootstrap failed: 125: Domain does not support it" >&2; exit 125; }
[ -e "$HOME/print" ] && { cat "$HOME/print"; exit 0; }
case "$1" in
  bootstrap) [ -e "$HOME/loaded" ] && { echo "Bootstrap failed: 5: Input/output error" >&2; exit 5; }
             touch "$HOME/loaded" ;;
  bootout) touch "$HOME/ending" ;;
  print) [ -e "$HOME/loaded" ] || { echo "Could not find service" >&2; exit 113; }
         echo "	pid = 4711"
         # It ends a moment after `bootout`.
         [ -e "$HOME/ending" ] && rm "$HOME/loaded" "$HOME/ending" ;;
esac
exit 0
"""


@pytest.fixture
def launchctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, with a `launchctl` that records its calls."""
    tool = tmp_path / "bin" / "launchctl"
    tool.parent.mkdir()
    tool.write_text(LAUNCHCTL)
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    return tmp_path


def test_a_launchd_agent_is_replaced_after_its_server_has_ended(launchctl: Path) -> None:
    Launchd().install(DEFINITION, force=False)
    Launchd().install(DEFINITION, force=True)
    calls = (launchctl / "calls").read_text().split()
    assert [call for call in calls if call != "print"] == ["bootstrap", "bootout", "bootstrap"]
    assert Launchd().status().pid == 4711


def test_launchd_without_a_login_session_is_explained(launchctl: Path) -> None:
    (launchctl / "remote").touch()
    with pytest.raises(ServiceFailed, match="logged in at the screen, not over SSH"):
        Launchd().install(DEFINITION, force=False)
    assert not Launchd().status().is_installed


@pytest.mark.parametrize(
    ("state", "failure"),
    [
        ("last exit code = 1", "no memory"),
        ("last terminating signal = Killed: 9", "it was killed (Killed: 9)"),
        ("last exit code = 0", None),
        ("last exit code = (never exited)", None),
    ],
)
def test_launchd_says_how_the_last_server_ended(launchctl: Path, state: str, failure: str | None) -> None:
    Launchd().install(DEFINITION, force=False)
    (launchctl / "print").write_text(f"io.mlxctl.serve = {{\n\tstate = not running\n\t{state}\n}}\n")
    Launchd().log_file.write_text("mlxctl: no memory\n")
    assert Launchd().status().failure == failure


def test_logs_print_the_log_that_was_written_last(environment: dict[str, str], tmp_path: Path) -> None:
    directory = tmp_path / ".local" / "state" / "mlxctl"
    directory.mkdir(parents=True)
    for name, text, written_at in (("service.log", "old", 1000), ("serve.log", "launched", 2000)):
        (directory / name).write_text(f"{text}\n")
        os.utime(directory / name, (written_at, written_at))
    assert service("logs").stdout == "launched\n"


def test_followed_logs_continue_in_a_file_that_replaces_the_log(
    environment: dict[str, str], tmp_path: Path
) -> None:
    log = tmp_path / ".local" / "state" / "mlxctl" / "service.log"
    log.parent.mkdir(parents=True)
    log.write_text("first\n")
    command = [sys.executable, "-u", "-m", "mlxctl", "logs", "--follow"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as follower:
        try:
            assert follower.stdout is not None
            assert follower.stdout.readline() == "first\n"
            log.rename(log.with_suffix(".old"))
            time.sleep(0.6)
            log.write_text("second, and longer than the first\n")
            assert follower.stdout.readline() == "second, and longer than the first\n"
        finally:
            follower.kill()


def test_a_followed_log_that_was_emptied_and_filled_beyond_the_last_line(tmp_path: Path) -> None:
    path = tmp_path / "service.log"
    path.write_text("banner\none\n")
    with FollowedLog(path) as log:
        assert log.new_text() == "banner\none\n"
        path.write_text("banner\nanother line, longer than the first ones\n")
        assert log.new_text() == "banner\nanother line, longer than the first ones\n"
        assert log.new_text() == ""


def test_a_followed_log_prints_lines_that_were_moved_before_they_were_read(tmp_path: Path) -> None:
    path = tmp_path / "service.log"
    path.write_text("one\n")
    with FollowedLog(path) as log:
        log.new_text()
        path.with_name("service.log.1").write_text("one\ntwo\n")
        path.write_text("three\nfour\n")
        assert log.new_text() == "two\nthree\nfour\n"


def test_a_home_that_cannot_be_written_is_one_line(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / ".local").write_text("a file instead of a directory")
    done = service("install")
    assert done.exit_code == 1
    assert done.stderr.startswith("mlxctl: ")
    assert (done.stderr.count("\n"), "cannot be written" in done.stderr) == (1, True)
