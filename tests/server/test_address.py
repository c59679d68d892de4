"""Addresses that `serve` listens on."""

import asyncio
import socket

import pytest

from mlxctl.ir.errors import SettingsError
from mlxctl.server.http.address import Address, claim_address
from mlxctl.server.http.listener import Listener
from mlxctl.state.settings import ServerSettings


def test_port_0_takes_a_free_port() -> None:
    address = claim_address("127.0.0.1", 0)
    assert address.port > 0
    assert address.url == f"http://127.0.0.1:{address.port}"


def test_host_name_is_resolved() -> None:
    assert claim_address("localhost", 0).ip in ("127.0.0.1", "::1")


def test_port_in_use_is_refused() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as holder,
        pytest.raises(SettingsError, match="already in use"),
    ):
        claim_address("127.0.0.1", holder.getsockname()[1])


@pytest.mark.parametrize("host", ["no.such.host.invalid", "203.0.113.7", "a b"])
def test_foreign_host_is_refused(host: str) -> None:
    with pytest.raises(SettingsError, match=r"cannot listen on"):
        claim_address(host, 0)


@pytest.mark.parametrize(
    ("ip", "url"),
    [("0.0.0.0", "http://127.0.0.1:80"), ("::", "http://[::1]:80"), ("10.0.0.1", "http://10.0.0.1:80")],
)
def test_url_is_reachable_from_this_machine(ip: str, url: str) -> None:
    assert Address(ip=ip, port=80).url == url


def test_port_taken_before_listen_is_one_clear_error() -> None:
    async def never_called(scope: object, receive: object, send: object) -> None:
        raise AssertionError

    async def listen(port: int) -> None:
        listener = Listener(never_called, Address(ip="127.0.0.1", port=port), ServerSettings())
        await listener.start(on_end=lambda: None)

    with (
        socket.create_server(("127.0.0.1", 0)) as holder,
        pytest.raises(SettingsError, match=r"(?i)already in use") as caught,
    ):
        asyncio.run(listen(holder.getsockname()[1]))
    assert "\n" not in str(caught.value)
