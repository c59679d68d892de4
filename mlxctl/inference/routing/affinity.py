"""Which remote has the cached prefix of a conversation. Pure."""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence

import msgspec

from mlxctl.ir import GenerationRequest

_MAX_PREFIXES = 8192
# The digests of the last messages of a conversation; earlier ones are those of earlier requests.
_MAX_DIGESTS = 64


class Affinity:
    """Remotes by the beginnings of conversations that they have read.

    The oldest are forgotten.
    """

    def __init__(self) -> None:
        self._servers: OrderedDict[bytes, str] = OrderedDict()

    def find(self, prefixes: Sequence[bytes]) -> str | None:
        """Return the remote with the longest of these prefixes."""
        return next((self._servers[each] for each in reversed(prefixes) if each in self._servers), None)

    def remember(self, prefixes: Sequence[bytes], server: str) -> None:
        """Record that a remote has read these prefixes."""
        for prefix in prefixes:
            self._servers[prefix] = server
            self._servers.move_to_end(prefix)
        while len(self._servers) > _MAX_PREFIXES:
            self._servers.popitem(last=False)


def prefixes_of(request: GenerationRequest) -> tuple[bytes, ...]:
    """Return a digest of each beginning of a conversation, shortest first.

    Each begins with model, tools and the first user message. Those of another caller differ. Any thread.
    """
    running = hashlib.blake2b(request.cache.namespace, digest_size=16)
    running.update(msgspec.json.encode((request.model, [tool.name for tool in request.tools])))
    digests = []
    for message in request.messages:
        # `repr` of frozen values is their content.
        running.update(repr(message).encode())
        if message.role != "system":
            digests.append(running.copy().digest())
    return tuple(digests[-_MAX_DIGESTS:])
