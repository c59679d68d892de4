"""A follower as a process: `python -m mlxctl.engine.follower_process RANK HOSTS LOG_FORMAT [MODELS]`.

It waits at its address for rank 0, which must have the secret of the group, and ends with that connection. A
thread reads operations, so that the end of rank 0 shows while the main thread computes, or waits in the ring.
"""

import hmac
import json
import logging
import os
import queue
import socket
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from mlxctl.engine.backend import prefer_openblas
from mlxctl.engine.host.failures import FOREIGN_ERRORS
from mlxctl.engine.loading.transformers_placeholder import import_mlx_lm_alone
from mlxctl.engine.process import ignore_signals, log_to_stderr
from mlxctl.engine.wire.rank_link import RankLink
from mlxctl.engine.wire.rank_messages import AnyRankOperation, Claim, Claimed, Refused
from mlxctl.state.log_format import LogFormat
from mlxctl.state.rank_hosts import CANNOT_LISTEN, TOKEN_VARIABLE, RankAddress, RankHosts

if TYPE_CHECKING:
    from mlxctl.engine.follower import Follower

_CLAIM_SECONDS = 5.0
# Free buffers are returned to the system when nothing has come for this long.
_IDLE_SECONDS = 1.0
_REPORT_SECONDS = 2.0

_log = logging.getLogger(__name__)


def main(rank: str, hosts: str, log_format: LogFormat, models: str = "null") -> None:
    """Serve rank 0 until it ends.

    `models` are directories by name; null takes those that rank 0 names.
    """
    ignore_signals()
    log_to_stderr(log_format)
    parent = os.getppid()
    threading.Thread(target=_end_with_parent, args=(parent,), name="parent-watch", daemon=True).start()
    group, number = RankHosts.from_json(hosts, "HOSTS"), int(rank)
    token = os.environ.pop(TOKEN_VARIABLE)
    link = _wait_for_rank_0(group.ranks[number][0], number, token)
    prefer_openblas()
    operations: queue.SimpleQueue[AnyRankOperation] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(link, operations), name="rank-0", daemon=True).start()
    import_mlx_lm_alone()
    # PERF: rank 0 must not wait for these imports before it claims this process.
    from mlxctl.engine.follower import Follower

    found = json.loads(models)
    directories = None if found is None else {name: Path(path) for name, path in found.items()}
    _serve(Follower(group, number, link.send, directories), operations)


def _serve(follower: "Follower", operations: "queue.SimpleQueue[AnyRankOperation]") -> None:
    import mlx.core as mx

    is_idle, reported_at = True, 0.0
    while True:
        try:
            operation = operations.get(timeout=None if is_idle else _IDLE_SECONDS)
        except queue.Empty:
            mx.clear_cache()
            is_idle, reported_at = True, 0.0
            follower.report_memory()
            continue
        try:
            follower.carry_out(operation)
        except FOREIGN_ERRORS as error:
            # As when rank 0 ends in the middle of a pass.
            _log.warning("rank %d: %s failed: %s", follower.rank, type(operation).__name__, error)
            os._exit(1)
        is_idle = False
        if (now := time.monotonic()) - reported_at >= _REPORT_SECONDS:
            reported_at = now
            follower.report_memory()


def _wait_for_rank_0(address: RankAddress, rank: int, token: str) -> RankLink:
    """Listen at `address` until a connection claims this rank."""
    try:
        listener = socket.create_server(address)
    except OSError as error:
        _log.error("rank %d cannot listen at %s: %s", rank, address, error.strerror)
        sys.exit(CANNOT_LISTEN)
    with listener:
        while True:
            connection, _ = listener.accept()
            link = RankLink(connection)
            # SEC: a connection that says nothing must not keep rank 0 out.
            too_late = threading.Timer(_CLAIM_SECONDS, link.close)
            too_late.start()
            try:
                if reason := _problem(link.claim(), rank, token):
                    _log.warning("rank %d: a connection was refused: %s", rank, reason)
                    link.send(Refused(reason=reason))
                else:
                    too_late.cancel()
                    link.send(Claimed(pid=os.getpid()))
                    return link
            except OSError as error:
                _log.warning("rank %d: a connection was refused: %s", rank, error)
            too_late.cancel()
            link.close()


def _problem(claim: Claim | None, rank: int, token: str) -> str | None:
    if claim is None or not hmac.compare_digest(claim.token.encode(), token.encode()):
        return f"it has another secret: set {TOKEN_VARIABLE} to the same value on all machines"
    if claim.rank != rank:
        return f"it is rank {rank}, not {claim.rank}: give every machine the same hosts file"
    return None


def _read(link: RankLink, operations: "queue.SimpleQueue[AnyRankOperation]") -> None:
    try:
        for operation in link.operations():
            operations.put(operation)
    except OSError as error:
        _log.warning("rank 0 is lost: %s", error)
    # The main thread may wait in the ring for ever.
    os._exit(0)


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[arg-type]
