"""The listening address, resolved and checked before the engine starts."""

import errno
import socket
from dataclasses import dataclass
from typing import Literal

from mlxctl.ir.errors import SettingsError


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A numeric address and a free port."""

    ip: str
    port: int
    scheme: Literal["http", "https"] = "http"

    @property
    def url(self) -> str:
        """The URL for clients on this machine."""
        return self.url_for({"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.ip, self.ip))  # noqa: S104

    def url_for(self, host: str) -> str:
        """Return the URL with a name or an address of this machine."""
        return f"{self.scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"


def claim_address(host: str, port: int) -> Address:
    """Return the address to listen on; port 0 takes a free port.

    Raises SettingsError for an unknown host or a port in use.
    """
    try:
        family, kind, protocol, _, resolved = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError):
        raise SettingsError(f"cannot listen on {host!r}: no such host on this machine") from None
    # NOTE: the server binds with SO_REUSEPORT, which lets two servers share a port silently; this probe
    # socket does not.
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(resolved)
        except OSError as error:
            raise SettingsError(_explain(error, host, Address(ip=str(resolved[0]), port=port))) from None
        ip, bound_port = probe.getsockname()[:2]
    return Address(ip=ip, port=bound_port)


def _explain(error: OSError, host: str, address: Address) -> str:
    port = address.port
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} on {host} is already in use; choose another with --port, or stop the program that "
            f"holds it (`mlxctl models ps --url {address.url}` answers if it is mlxctl)"
        )
    if error.errno == errno.EACCES:
        return f"port {port} on {host} needs more rights; choose one from 1024 up with --port"
    return f"cannot listen on {host} port {port}: {error.strerror}"
