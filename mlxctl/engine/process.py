"""The engine as a process: `python -m mlxctl.engine.process SOCKET SETTINGS LOG_FORMAT [HOSTS]`.

With HOSTS it is rank 0 of a group.

Started by `client.launcher` only.
"""

import gc
import logging
import os
import signal
import socket
import sys
import threading
import time

import msgspec

from mlxctl.engine.backend import prefer_openblas
from mlxctl.engine.host.process_memory import ProcessOverhead
from mlxctl.engine.loading.loader import import_mlx_lm
from mlxctl.engine.loading.transformers_placeholder import import_mlx_lm_alone
from mlxctl.state.log_format import JsonFormatter, LogFormat, TextFormatter
from mlxctl.state.rank_hosts import TOKEN_VARIABLE, RankHosts
from mlxctl.state.settings import EngineSettings

# Time to write cached prefixes to disk after the front has ended.
_LONELY_SECONDS = 20.0


def main(socket_path: str, settings_json: str, log_format: LogFormat, hosts: str = "") -> None:
    """Connect to the front at `socket_path` and serve it.

    Until it stops or disconnects.
    """
    ignore_signals()
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), name="parent-watch", daemon=True).start()
    log_to_stderr(log_format)
    settings = msgspec.json.decode(settings_json, type=EngineSettings, dec_hook=_decode_path)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(socket_path)
    except (ConnectionRefusedError, FileNotFoundError):
        # The front was stopped meanwhile.
        sys.exit(1)
    blas = _blas(settings)
    import_mlx_lm_alone()
    # PERF: collecting garbage among imported modules delays every row by a tenth of a second.
    gc.freeze()
    _run(connection, settings, blas, ProcessOverhead(), hosts)


def run_engine(connection: socket.socket, settings: EngineSettings) -> None:
    """Run the engine on this thread until the connection is closed.

    The thread becomes the MLX thread.
    """
    blas = _blas(settings)
    import_mlx_lm()
    # The process has other memory as well.
    _run(connection, settings, blas, None, "")


def ignore_signals() -> None:
    """Leave the end of the process to the front.

    The terminal and service managers signal the whole process group. If the front dies, the closed socket
    tells.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def log_to_stderr(log_format: LogFormat) -> None:
    """Log warnings and errors in the server's format."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


def _blas(settings: EngineSettings) -> str:
    """Choose the BLAS before MLX is imported, and return its name."""
    return prefer_openblas() if settings.blas == "auto" else "bundled"


def _run(
    connection: socket.socket,
    settings: EngineSettings,
    blas: str,
    overhead: ProcessOverhead | None,
    hosts: str,
) -> None:
    from mlxctl.engine.decoding.shared_caches import RanksBrokenError
    from mlxctl.engine.host.mailbox import Mailbox
    from mlxctl.engine.loop import EngineLoop

    group = None
    if hosts:
        from mlxctl.engine.ranks.group import RankGroup

        group = RankGroup(
            RankHosts.from_json(hosts, "HOSTS"), os.environ.pop(TOKEN_VARIABLE), settings.parallel
        )
    try:
        EngineLoop(Mailbox(connection), settings, blas=blas, overhead=overhead, group=group).run()
    except RanksBrokenError as error:
        logging.getLogger(__name__).error("engine: %s; all ranks end", error)  # noqa: TRY400 -- no trace
        os._exit(1)


def _end_with_parent(parent: int) -> None:
    """End the process some time after its parent has ended.

    A thread that computes does not notice the closed socket.
    """
    while os.getppid() == parent:
        time.sleep(1.0)
    time.sleep(_LONELY_SECONDS)
    os._exit(1)


def _decode_path(kind: type, value: object) -> object:
    return kind(value)


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[arg-type]
