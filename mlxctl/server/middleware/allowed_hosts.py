"""Refuse requests whose Host header names somebody else.

SEC: a web page can point its own host name at 127.0.0.1 (DNS rebinding) and then read a local server as its own origin. Such
requests carry the page's name, so a server that listens on loopback answers loopback names only, and those a person added.
"""

import ipaddress
from collections.abc import Sequence

from falcon.asgi import Request, Response

from mlxctl.errors import InvalidRequest


class AllowedHosts:
    """Listening beyond loopback and given no names, any Host is answered: which names lead there cannot be known."""

    def __init__(self, *, bound_host: str, allowed_hosts: Sequence[str]) -> None:
        self._names = {name.lower() for name in allowed_hosts} | {bound_host.lower()}
        self._is_open = not _is_loopback(bound_host) and not allowed_hosts

    async def process_request(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Raise InvalidRequest for a foreign name."""
        if self._is_open or not request.get_header("host"):
            return
        name = request.host.lower().rstrip(".")
        if name not in self._names and not _is_loopback(name):
            raise InvalidRequest(
                f"this server does not answer to the host name {name!r}; add it to server.allowed_hosts", code="host_not_allowed"
            )


def _is_loopback(name: str) -> bool:
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False
