"""URLs by which other machines reach the server, and their QR code."""

import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence

from rich.text import Text

from mlxctl.cli.console import console
from mlxctl.ir.host_names import is_loopback
from mlxctl.server import Address

# Addresses for documentation (RFC 5737, RFC 3849), outside of every network: the default route leads there.
_ELSEWHERE = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
_UNSPECIFIED = {"0.0.0.0": socket.AF_INET, "::": socket.AF_INET6}  # noqa: S104
_SCUTIL_SECONDS = 2.0
# ISO/IEC 18004: four light modules on each side.
_QUIET_MODULES = 4
_INDENT = "  "


def lan_urls(address: Address, allowed_hosts: Sequence[str]) -> list[str]:
    """Return the URLs for other machines, addresses first.

    A server on loopback has none. Where `--allowed-host` names hosts, no other is accepted; names of
    containers are not for other machines.
    """
    if is_loopback(address.ip):
        return []
    hosts = allowed_hosts or (*_own_addresses(address.ip), *_bonjour_names())
    return [address.url_for(host) for host in hosts if not host.endswith(".internal")]


def _own_addresses(bound: str) -> Iterator[str]:
    family = _UNSPECIFIED.get(bound)
    if family is None:
        yield bound
        return
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            # No packet is sent: UDP only looks up the route.
            probe.connect((_ELSEWHERE[family], 9))
        except OSError:
            return
        yield probe.getsockname()[0]


def _bonjour_names(platform: str = sys.platform) -> Iterator[str]:
    """Yield NAME.local, by which Bonjour finds this machine."""
    name = socket.gethostname().lower()
    if platform == "darwin":
        # The host name of a Mac may come from the router instead.
        try:
            told = subprocess.run(
                ["scutil", "--get", "LocalHostName"],  # noqa: S607 -- in /usr/sbin
                capture_output=True, text=True, timeout=_SCUTIL_SECONDS, check=True,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError):
            return
        name = f"{told.stdout.strip()}.local"
    if name.endswith(".local"):
        yield name


def print_qr_code(url: str) -> None:
    """Print a URL as a QR code, where the terminal shows colors."""
    out = console()
    if not out.is_terminal or out.no_color or out.color_system is None:
        return
    lines = qr_lines(url)
    if len(lines[0]) + 2 * len(_INDENT) > out.width:
        return
    for line in lines:
        # Black on white in every theme: cameras may not read the inverse.
        out.print(Text.assemble(_INDENT, (line, "#000000 on #ffffff")))


def qr_lines(url: str) -> list[str]:
    """Return a QR code as half blocks.

    A line has two rows of modules.
    """
    # PERF: only the server of a network needs it.
    import segno

    rows = [list(row) for row in segno.make_qr(url).matrix_iter(border=_QUIET_MODULES)]
    if len(rows) % 2:
        rows.append([0] * len(rows[0]))
    return [
        "".join(" ▄▀█"[2 * bool(upper) + bool(lower)] for upper, lower in zip(above, below, strict=True))
        for above, below in zip(rows[::2], rows[1::2], strict=True)
    ]
