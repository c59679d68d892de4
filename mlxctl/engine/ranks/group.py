"""The group of ranks, on rank 0.

MLX thread; one thread for each connection reads replies. When another rank ends, the process ends: no rank
computes without the others, and the front starts all of them again.
"""

import logging
import os
import queue
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from functools import partial
from itertools import count
from typing import Any, Literal

from mlxctl.engine.decoding import caches as kv
from mlxctl.engine.decoding.shared_caches import Followers, Handle, RanksBrokenError, SharedCaches
from mlxctl.engine.memory import EngineMemory
from mlxctl.engine.ranks.plan import plan_of
from mlxctl.engine.ranks.requirements import CannotSplitError, Split, choose_split
from mlxctl.engine.ranks.ring import join_ring
from mlxctl.engine.wire.rank_link import RankLink
from mlxctl.engine.wire.rank_messages import (
    AnyRankReply,
    CheckPlan,
    Claim,
    Claimed,
    FormRing,
    LoadShard,
    MeasureModel,
    MemoryUsed,
    NewCaches,
    PlanAccepted,
    RankOperation,
    Refused,
    Release,
    ShardLoaded,
    UnloadShard,
)
from mlxctl.ir import ModelSpec
from mlxctl.ir.errors import RanksUnavailable
from mlxctl.library.files import read_optional_json
from mlxctl.state.rank_hosts import RankAddress, RankHosts

CONNECT_SECONDS = 15.0
"""How long rank 0 tries to reach another rank, which may still be starting."""

_RETRY_SECONDS = 0.05
_CLAIM_SECONDS = 10.0

_log = logging.getLogger(__name__)


class RankGroup(Followers):
    """The other ranks, and the ring with them.

    It is formed with the first model: until then no rank is reached.
    """

    def __init__(
        self, hosts: RankHosts, token: str, parallel: Literal["auto", "tensor", "pipeline"] = "auto"
    ) -> None:
        """`token` is the secret that all ranks have; `parallel` is that of the settings."""
        self._parallel = parallel
        self.hosts = hosts
        self.size = len(hosts.ranks)
        self.ring: Any = None
        self.memory_bytes: dict[int, int] = {}
        """Active memory of MLX on other ranks, by rank, as they reported it last."""
        self.memory_limits: dict[int, int] = {}
        """Memory limit of MLX on other ranks, by rank."""
        self._token = token
        self._links: list[RankLink] = []
        self._replies: queue.SimpleQueue[tuple[int, AnyRankReply]] = queue.SimpleQueue()
        self._numbers = count()
        self._released: deque[int] = deque()
        self._is_closed = False

    def send(self, operation: RankOperation) -> None:
        released = [self._released.popleft() for _ in range(len(self._released))]
        messages = [Release(numbers=released), operation] if released else [operation]
        for rank, link in enumerate(self._links, 1):
            try:
                link.send(*messages)
            except OSError as error:
                raise RanksBrokenError(f"{self._name(rank)} cannot be reached: {error}") from error

    def new_handle(self) -> Handle:
        return Handle(next(self._numbers), self)

    def release(self, number: int) -> None:
        self._released.append(number)

    def split_of(self, spec: ModelSpec) -> Split:
        """Return how the ranks share a model. Raises RanksUnavailable."""
        config = read_optional_json(spec.path, "config.json")
        try:
            return choose_split(spec, config, self.size, self._parallel)
        except CannotSplitError as error:
            raise RanksUnavailable(spec.path, f"model {str(spec.path)!r}: {error}") from error

    def share(self, name: str, create_caches: Callable[[], kv.Caches]) -> Callable[[], kv.Caches]:
        """Return a function that creates caches of a model on all ranks."""
        return partial(self._new_caches, name, create_caches)

    def begin_load(self, spec: ModelSpec, memory: EngineMemory) -> Iterator[None]:
        """Let all ranks begin to load, if they have the same model.

        All use the memory that the smallest one has. Yields while they answer. Raises RanksUnavailable.
        """
        if not self._links:
            yield from self._reach(spec)
        split = self.split_of(spec)
        self.send(CheckPlan(spec=spec, plan=plan_of(spec, self.size, split)))
        yield from self._await(spec, PlanAccepted)
        if self.ring is None:
            memory.limit_bytes = min(memory.limit_bytes, *self.memory_limits.values())
            self._form_ring(spec, memory.limit_bytes)
        self.send(LoadShard(spec=spec, split=split))

    def end_load(self, spec: ModelSpec) -> Iterator[None]:
        """Yield until all ranks have loaded; then let them measure the model.

        Raises RanksUnavailable when one refuses.
        """
        yield from self._await(spec, ShardLoaded)
        self.send(MeasureModel(name=spec.name))

    def unload(self, name: str) -> None:
        """Free a model on the other ranks, loaded or loading."""
        self.send(UnloadShard(name=name))

    def close(self) -> None:
        """Let the other ranks end."""
        self._is_closed = True
        for link in self._links:
            link.close()

    def _new_caches(self, name: str, create_caches: Callable[[], kv.Caches]) -> kv.Caches:
        caches = SharedCaches(self, create_caches())
        self.send(NewCaches(model=name, caches=caches.handle.number))
        return caches

    def _await(self, spec: ModelSpec, answer: type[PlanAccepted] | type[ShardLoaded]) -> Iterator[None]:
        """Yield until every rank has answered; raise RanksUnavailable when one refuses."""
        waiting = set(range(1, self.size))
        while waiting:
            try:
                rank, reply = self._replies.get(timeout=_RETRY_SECONDS)
            except queue.Empty:
                yield
                continue
            if isinstance(reply, Refused):
                raise self._unavailable(spec, rank, reply.reason)
            if isinstance(reply, answer) and reply.name == spec.name:
                waiting.discard(rank)
            if isinstance(reply, PlanAccepted):
                self.memory_limits[rank] = reply.memory_limit_bytes

    def _reach(self, spec: ModelSpec) -> Iterator[None]:
        for rank, addresses in enumerate(self.hosts.ranks[1:], 1):
            connection = yield from self._connect(spec, rank, addresses[0])
            self._claim(spec, rank, RankLink(connection))
        for rank, link in enumerate(self._links, 1):
            threading.Thread(target=self._read, args=(rank, link), name=f"rank-{rank}", daemon=True).start()

    def _form_ring(self, spec: ModelSpec, memory_limit_bytes: int) -> None:
        self.send(FormRing(memory_limit_bytes=memory_limit_bytes))
        try:
            self.ring = join_ring(self.hosts, 0)
        except RuntimeError as error:
            reason = f"the ring of the ranks cannot be formed: {error}"
            place = f"host 0 must be this machine, and {self.hosts.ranks[0][0]} free"
            raise RanksUnavailable(spec.path, f"{reason}; {place}") from error

    def _connect(
        self, spec: ModelSpec, rank: int, address: RankAddress
    ) -> Generator[None, None, socket.socket]:
        until = time.monotonic() + CONNECT_SECONDS
        while True:
            try:
                return socket.create_connection(address, timeout=_CLAIM_SECONDS)
            except OSError as error:
                if time.monotonic() >= until:
                    reason = f"it does not answer: {error.strerror or error}; start `mlxctl rank` there"
                    raise self._unavailable(spec, rank, reason) from error
            time.sleep(_RETRY_SECONDS)
            yield

    def _claim(self, spec: ModelSpec, rank: int, link: RankLink) -> None:
        """Make the process at the other end this rank."""
        try:
            link.send(Claim(token=self._token, rank=rank))
            reply = next(link.replies(), None)
            link.set_timeout(None)
        except OSError as error:
            raise self._unavailable(spec, rank, f"it does not answer: {error}") from error
        if isinstance(reply, Refused):
            raise self._unavailable(spec, rank, reply.reason)
        if not isinstance(reply, Claimed):
            raise self._unavailable(spec, rank, "it closed the connection")
        self._links.append(link)

    def _read(self, rank: int, link: RankLink) -> None:
        """Take the replies of a rank; end the process with it."""
        reason = "ended"
        try:
            for reply in link.replies():
                if isinstance(reply, MemoryUsed):
                    self.memory_bytes[rank] = reply.active_bytes
                else:
                    self._replies.put((rank, reply))
        except OSError as error:
            reason = f"is lost: {error}"
        if not self._is_closed:
            _log.error("engine: %s %s; all ranks end", self._name(rank), reason)
            # The MLX thread may wait for this rank for ever.
            os._exit(1)

    def _name(self, rank: int) -> str:
        return f"rank {rank} at {self.hosts.ranks[rank][0]}"

    def _unavailable(self, spec: ModelSpec, rank: int, reason: str) -> RanksUnavailable:
        return RanksUnavailable(spec.path, f"{self._name(rank)}: {reason}")
