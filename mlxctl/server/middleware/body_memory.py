"""Memory of request bodies: its limit, and each caller's share.

Event-loop thread only.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from falcon.asgi import Request

from mlxctl.ir.errors import QueueFull, describe_bytes
from mlxctl.server.http.disconnect import call_at_end
from mlxctl.server.http.upload_turns import Upload, UploadTurns
from mlxctl.server.policy.caller import fairness_key


class BodyMemory:
    """Counts the bytes of the bodies of open requests, by caller.

    While there is room, a caller may use all of it. Beyond that a caller may still use the limit divided by
    the number of callers with bodies, so the total is at most twice the limit.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._by_caller: Counter[str] = Counter()

    @property
    def num_bytes(self) -> int:
        """Bytes of all open requests."""
        return self._by_caller.total()

    def add(self, caller: str, num_bytes: int) -> None:
        """Count bytes that have arrived. Raises QueueFull, and then counts nothing."""
        total = self.num_bytes + num_bytes
        if total > self._max_bytes:
            mine = self._by_caller[caller] + num_bytes
            share = self._max_bytes // len(self._by_caller.keys() | {caller})
            if mine > share or total > 2 * self._max_bytes:
                self._drop_empty(caller)
                raise QueueFull(
                    f"the bodies of open requests take {describe_bytes(self.num_bytes)} of "
                    f"{describe_bytes(self._max_bytes)}, and the share of a caller is "
                    f"{describe_bytes(share)}; send the request again when others have ended"
                )
        self._by_caller[caller] += num_bytes

    def remove(self, caller: str, num_bytes: int) -> None:
        """Subtract the bytes of an ended request."""
        self._by_caller[caller] -= num_bytes
        self._drop_empty(caller)

    def _drop_empty(self, caller: str) -> None:
        if not self._by_caller[caller]:
            del self._by_caller[caller]


class BodyAccount:
    """The bytes of one request or WebSocket in that memory."""

    def __init__(self, memory: BodyMemory, turns: UploadTurns, caller: str) -> None:
        self._memory = memory
        self._turns = turns
        self._caller = caller
        self._num_bytes = 0

    def add(self, num_bytes: int) -> None:
        """Count bytes that have arrived. Raises QueueFull."""
        self._memory.add(self._caller, num_bytes)
        self._num_bytes += num_bytes

    def receiving(self, num_bytes: int) -> AbstractAsyncContextManager[Upload]:
        """Receive a body of at most `num_bytes` in its turn."""
        return self._turns.receiving(self._caller, num_bytes)

    def incoming(self, end: Callable[[], None]) -> Upload:
        """Return the incoming messages of a WebSocket; `end` ends slow ones."""
        return Upload(self._turns, self._caller, 0, end=end)

    def another(self) -> "BodyAccount":
        """Return an empty account of the same caller."""
        return BodyAccount(self._memory, self._turns, self._caller)

    def remove(self, num_bytes: int) -> None:
        """Subtract bytes that were added."""
        self._memory.remove(self._caller, num_bytes)
        self._num_bytes -= num_bytes

    def close(self) -> None:
        """Subtract the body from the total."""
        if self._num_bytes:
            self._memory.remove(self._caller, self._num_bytes)
            self._num_bytes = 0


class BodyAccounts:
    """Middleware that gives every request an account, after authentication."""

    def __init__(self, memory: BodyMemory, turns: UploadTurns) -> None:
        self._memory = memory
        self._turns = turns

    async def process_resource(self, request: Request, *_: object) -> None:
        """Open the account of a request until it ends."""
        account = request.context.body_account = BodyAccount(
            self._memory, self._turns, fairness_key(request, request.context.identity)
        )
        call_at_end(request.scope, account.close)
