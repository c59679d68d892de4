"""Refuse requests with a malformed or foreign Host header.

SEC: a web page can point its own host name at 127.0.0.1 (DNS rebinding) and then read a local server as its
own origin. Such requests carry the page's host name, so a server that listens on loopback answers only
loopback names and configured ones.
"""

import re
from collections.abc import Sequence

from falcon.asgi import Request, Response

from mlxctl.errors import InvalidRequest
from mlxctl.ir.host_names import is_loopback

# RFC 9110, section 7.2: a name or an address (IPv6 in brackets), optionally with a port.
_HOST = re.compile(r"(?:\[([0-9A-Za-z:.%]+)\]|([\w.~%!$&'()*+;=-]+))(?::[0-9]{1,5})?", re.ASCII)


class AllowedHosts:
    """Checks the Host header.

    Beyond loopback and without configured names, any is accepted.
    """

    def __init__(self, *, bound_host: str, allowed_hosts: Sequence[str]) -> None:
        self._names = {_normalized(name) for name in (*allowed_hosts, bound_host)}
        self._is_open = not is_loopback(bound_host) and not allowed_hosts

    async def process_request(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Raise InvalidRequest for a missing, malformed or foreign Host."""
        hosts = [value.decode("latin-1") for name, value in request.scope["headers"] if name == b"host"]
        if hosts in ([], [""]):
            if request.scope["http_version"] == "1.1":
                raise InvalidRequest("an HTTP/1.1 request needs a Host header", code="invalid_host")
            return
        parts = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        if parts is None:
            offered = ", ".join(hosts)[:256]
            raise InvalidRequest(
                f"the Host header {offered!r} is malformed; send one NAME or NAME:PORT", code="invalid_host"
            )
        name = _normalized(parts[1] or parts[2])
        if not self._is_open and name not in self._names and not is_loopback(name):
            raise InvalidRequest(
                f"host name {name!r} is not allowed; add it to server.allowed_hosts",
                code="host_not_allowed",
            )


def _normalized(name: str) -> str:
    return name.strip("[]").lower().removesuffix(".")
