"""Hosts files: the addresses of the ranks of a group.

Both formats of MLX are read: that of `mlx.launch --hostfile`, a list of objects with `ips` (or an object with
this list as `hosts`), and that of MLX_HOSTFILE, a list of lists of "ip:port".
"""

import ipaddress
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from mlxctl.ir.errors import UsageError

TOKEN_VARIABLE = "MLXCTL_RANKS_TOKEN"  # noqa: S105 -- a name
"""Environment variable with the secret that all ranks of a group have."""

CANNOT_LISTEN = 3
"""Exit status of a rank that cannot listen at its address."""

MAX_RANKS = 64
FIRST_PORT = 32323
"""Port of the first address in a file without ports, as `mlx.launch` counts them."""

_MAX_FILE_BYTES = 1 << 20
_MAX_TOKEN_CHARS = 1024


class RankAddress(NamedTuple):
    """An IPv4 address of a rank: MLX's ring takes no others."""

    ip: str
    port: int

    def __str__(self) -> str:
        return f"{self.ip}:{self.port}"


@dataclass(frozen=True, slots=True)
class RankHosts:
    """The addresses of every rank, in order; rank 0 is first.

    At its first address a rank waits for rank 0, and then for its neighbor in the ring.
    """

    ranks: tuple[tuple[RankAddress, ...], ...]

    def num_beside(self, rank: int) -> int:
        """Return the number of ranks on this one's machine, by addresses."""
        return sum(addresses[0].ip == self.ranks[rank][0].ip for addresses in self.ranks)

    @classmethod
    def local(cls, ports: list[int]) -> "RankHosts":
        """Return ranks on this machine, one for each port."""
        return cls(tuple((RankAddress("127.0.0.1", port),) for port in ports))

    def to_json(self) -> str:
        """Return what `from_json` reads: the format of MLX_HOSTFILE."""
        return json.dumps([[str(address) for address in addresses] for addresses in self.ranks])

    @classmethod
    def from_json(cls, text: str, source: str) -> "RankHosts":
        """Parse a hosts file. Raises UsageError that names the `source`."""
        try:
            found = json.loads(text)
            if isinstance(found, dict):
                if found.get("backend") not in (None, "", "any", "ring"):
                    raise _HostsError(f"backend {found['backend']!r} is not supported; use 'ring'")
                found = found.get("hosts")
            if not isinstance(found, list):
                raise _HostsError("expected a list of hosts")
            ports = iter(range(FIRST_PORT, 1 << 16))
            hosts = cls(tuple(tuple(_addresses(entry, rank, ports)) for rank, entry in enumerate(found)))
            hosts._check()
        except (ValueError, RecursionError) as error:
            reason = str(error) if isinstance(error, _HostsError) else f"invalid JSON: {error}"
            raise UsageError(f"hosts file {source!r}: {reason}") from None
        return hosts

    @classmethod
    def read(cls, path: Path) -> "RankHosts":
        """Read a hosts file. Raises UsageError."""
        try:
            with path.open("rb") as file:
                text = file.read(_MAX_FILE_BYTES + 1)
        except OSError as error:
            raise UsageError(f"hosts file {str(path)!r} cannot be read: {error.strerror}") from None
        if len(text) > _MAX_FILE_BYTES:
            raise UsageError(f"hosts file {str(path)!r} is larger than {_MAX_FILE_BYTES} bytes")
        return cls.from_json(text.decode("utf-8", "replace"), str(path))

    def _check(self) -> None:
        if not 2 <= len(self.ranks) <= MAX_RANKS:
            raise _HostsError(f"expected 2 to {MAX_RANKS} hosts, got {len(self.ranks)}")
        seen: dict[RankAddress, int] = {}
        for rank, addresses in enumerate(self.ranks):
            for address in addresses:
                if address in seen:
                    raise _HostsError(f"hosts {seen[address]} and {rank} both have the address {address}")
                seen[address] = rank


def group_token(environment: Mapping[str, str]) -> str:
    """Return the secret of the group. Raises UsageError without one."""
    token = environment.get(TOKEN_VARIABLE, "")
    if not token:
        raise UsageError(
            f"set {TOKEN_VARIABLE} to the same secret on all machines of the hosts file, for example to the "
            "output of `openssl rand -hex 32`"
        )
    if len(token) > _MAX_TOKEN_CHARS:
        raise UsageError(f"{TOKEN_VARIABLE} has more than {_MAX_TOKEN_CHARS} characters")
    return token


class _HostsError(ValueError):
    """What is wrong in a hosts file."""


def _addresses(entry: Any, rank: int, ports: Iterator[int]) -> Iterator[RankAddress]:
    if isinstance(entry, dict):
        ips = entry.get("ips")
        if not isinstance(ips, list) or not ips:
            raise _HostsError(f"host {rank} needs `ips`, a list of its addresses")
        for ip in ips:
            yield RankAddress(_ip(ip, rank), next(ports))
    elif isinstance(entry, list) and entry:
        for text in entry:
            ip, _, port = str(text).rpartition(":")
            if not (port.isascii() and port.isdecimal() and 1 <= int(port) <= 65_535):
                raise _HostsError(f"host {rank}: expected 'ip:port' with a port of 1 to 65535, got {text!r}")
            yield RankAddress(_ip(ip, rank), int(port))
    else:
        raise _HostsError(f"host {rank}: expected an object with `ips`, or a list of 'ip:port'")


def _ip(text: Any, rank: int) -> str:
    try:
        return str(ipaddress.IPv4Address(text if isinstance(text, str) else ""))
    except ValueError:
        raise _HostsError(f"host {rank}: {text!r} is not an IPv4 address, which the ring needs") from None
