"""Refuse requests with a malformed or foreign Host header.

SEC: a web page can point its own host name at 127.0.0.1 (DNS rebinding) and then read a local server as its
own origin. Such requests carry the page's host name. So a server that listens on loopback answers only
loopback names and configured ones, and another one without keys only names that a page cannot have.
"""

import ipaddress
import re
import socket
from collections.abc import Sequence

from falcon.asgi import Request, Response

from mlxctl.ir.errors import InvalidRequest
from mlxctl.ir.host_names import is_loopback
from mlxctl.server.policy import PolicyService

# RFC 9110, section 7.2: a name or an address (IPv6 in brackets), optionally with a port.
_HOST = re.compile(r"(?:\[([0-9A-Za-z:.%]+)\]|([\w.~%!$&'()*+;=-]+))(?::[0-9]{1,5})?", re.ASCII)


# Names of a private network, which no public name server answers.
_PRIVATE = (".local", ".internal")


class AllowedHosts:
    """Checks the Host header; `request.context.has_known_host` says whether it is known.

    Beyond loopback and without configured names, those of the machine and its network are known. Others are
    accepted where callers need a key.
    """

    def __init__(self, policy: PolicyService, *, bound_host: str, allowed_hosts: Sequence[str]) -> None:
        self._policy = policy
        self._names = {_normalized(name) for name in (*allowed_hosts, bound_host)}
        self._is_in_network = not is_loopback(bound_host) and not allowed_hosts
        if self._is_in_network:
            own = _normalized(socket.gethostname())
            self._names |= {own, own.partition(".")[0]}

    async def process_request(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Raise InvalidRequest for a missing, malformed or foreign Host."""
        request.context.has_known_host = True
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
        if name in self._names or is_loopback(name) or (self._is_in_network and _is_private(name)):
            return
        request.context.has_known_host = False
        if not self._is_in_network or not self._policy.requires_keys:
            raise InvalidRequest(
                f"host name {name!r} is not allowed; start the server with `--allowed-host {name}`, or add "
                "it to server.allowed_hosts",
                code="host_not_allowed",
            )


def _is_private(name: str) -> bool:
    """Whether a name is an address, or one of a private network."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name.endswith(_PRIVATE)
    return True


def _normalized(name: str) -> str:
    return name.strip("[]").lower().removesuffix(".")
