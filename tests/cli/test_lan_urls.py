"""URLs of the start-up lines for other machines, and their QR code."""

import ipaddress
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
import segno

from mlxctl.cli import lan_urls
from mlxctl.cli.banner import Banner
from mlxctl.inference import ServedModel
from mlxctl.library import DEMO_MODEL, read_model
from mlxctl.server import Address
from mlxctl.state.settings import ServerSettings, Settings

EVERYWHERE = Address(ip="0.0.0.0", port=8080)
URL = "http://192.168.1.20:8080"


def ready_lines(address: Address, server: ServerSettings, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return what `serve` prints with these settings."""
    banner = Banner()
    banner.listening(address, Settings(server=server), requires_keys=bool(server.api_keys))
    model = ServedModel(name="m", facts=read_model(DEMO_MODEL.path), state="loaded")
    banner.ready(address, (model,), {}, seconds=1.0)
    return capsys.readouterr().out.splitlines()


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with one address and a Bonjour name."""
    monkeypatch.setattr(lan_urls, "_own_addresses", lambda bound: iter(["192.168.1.20"]))
    monkeypatch.setattr(lan_urls, "_bonjour_names", lambda: iter(["studio.local"]))


@pytest.mark.usefixtures("network")
def test_server_of_a_network_prints_the_urls_for_other_machines(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ready_lines(EVERYWHERE, ServerSettings(host="0.0.0.0", api_keys=("sesame-1234",)), capsys)
    assert [f"  lan    {URL}", "         http://studio.local:8080"] == [
        line for line in lines if re.search("168|studio", line)
    ]
    assert "sesame" not in "\n".join(lines)


@pytest.mark.usefixtures("network")
def test_only_accepted_hosts_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    hosts = ("mac.example", "host.docker.internal")
    lines = ready_lines(EVERYWHERE, ServerSettings(host="0.0.0.0", allowed_hosts=hosts), capsys)
    assert [line for line in lines if "lan " in line] == ["  lan    http://mac.example:8080"]
    assert not [line for line in lines if re.search("168|studio|docker", line)]


@pytest.mark.usefixtures("network")
def test_server_on_loopback_prints_none(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ready_lines(Address(ip="::1", port=8080), ServerSettings(allowed_hosts=("mac.example",)), capsys)
    assert not [line for line in lines if "  lan" in line]


@pytest.mark.parametrize("bound", ["0.0.0.0", "::"])
def test_own_addresses_are_those_of_a_network(bound: str) -> None:
    found = [ipaddress.ip_address(address) for address in lan_urls._own_addresses(bound)]
    assert not [address for address in found if address.is_unspecified]
    assert list(lan_urls._own_addresses("192.168.1.9")) == ["192.168.1.9"]


def test_a_mac_is_found_by_its_bonjour_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "scutil"
    tool.write_text('#!/bin/sh\n[ "$*" = "--get LocalHostName" ] && echo Studio\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert list(lan_urls._bonjour_names("darwin")) == ["Studio.local"]
    tool.unlink()
    assert list(lan_urls._bonjour_names("darwin")) == []


def test_qr_code_has_the_modules_of_the_url() -> None:
    rows = []
    for line in lan_urls.qr_lines(URL):
        halves = [" ▄▀█".index(block) for block in line]
        rows += [[half >> 1 for half in halves], [half & 1 for half in halves]]
    wanted = [[int(module) for module in row] for row in segno.make_qr(URL).matrix_iter(border=4)]
    assert rows[: len(wanted)] == wanted
    assert not any(map(any, rows[len(wanted) :]))


def test_qr_code_needs_a_terminal_with_colors() -> None:
    program = """
import os, sys
from mlxctl.cli.lan_urls import print_qr_code
for variables in ({"TERM": "xterm-256color"}, {"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "dumb"}):
    os.environ.update(variables)
    print_qr_code(sys.argv[1])
    print("end", flush=True)
"""
    front, back = pty.openpty()
    environment = {"PATH": os.environ["PATH"], "COLUMNS": "80", "LINES": "24", "PYTHONUTF8": "1"}
    with subprocess.Popen([sys.executable, "-c", program, URL], stdout=back, env=environment) as process:
        os.close(back)
        shown = b""
        while shown.count(b"end") < 3:
            shown += os.read(front, 65536)
        assert process.wait() == 0
    os.close(front)
    assert ["█" in part for part in shown.decode().split("end")] == [True, False, False, False]
