"""The engine as a process of its own: `python -m mlxctl.engine.process SOCKET SETTINGS`.

Started by `launcher`, never by hand.
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

from mlxctl.engine.loading.loader import import_mlx_lm, prefer_openblas
from mlxctl.settings import EngineSettings

# What an engine may still do when its front is gone, such as writing its prefix cache to disk.
_LONELY_SECONDS = 20.0


def main(socket_path: str, settings_json: str) -> None:
    """Connect to the front at `socket_path` and serve it until it says Stop or is gone."""
    # The terminal and service managers signal the whole group; the front decides when the engine ends, and if
    # the front dies, the closed socket tells.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), name="parent-watch", daemon=True).start()
    logging.basicConfig(
        level=logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        datefmt="%H:%M:%S",
    )
    settings = msgspec.json.decode(settings_json, type=EngineSettings, dec_hook=_decode_path)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(socket_path)
    blas = _import(settings)
    # PERF: to look for garbage in what was imported takes a tenth of a second, in which no row gets a token.
    gc.freeze()
    _run(connection, settings, blas)


def run_engine(connection: socket.socket, settings: EngineSettings) -> None:
    """Run the engine on this thread, which becomes the MLX thread, until the other end of `connection` is
    done with it.
    """
    _run(connection, settings, _import(settings))


def _import(settings: EngineSettings) -> str:
    """Import what computes, and return whose matrix products it uses."""
    blas = prefer_openblas() if settings.blas == "auto" else "bundled"
    import_mlx_lm()
    return blas


def _run(connection: socket.socket, settings: EngineSettings, blas: str) -> None:
    from mlxctl.engine.loop import EngineLoop
    from mlxctl.engine.mailbox import Mailbox

    EngineLoop(Mailbox(connection), settings, blas=blas).run()


def _end_with_parent(parent: int) -> None:
    """End the process some time after its parent has, whatever it is busy with: the socket tells only who
    listens.
    """
    while os.getppid() == parent:
        time.sleep(1.0)
    time.sleep(_LONELY_SECONDS)
    os._exit(1)


def _decode_path(kind: type, value: object) -> object:
    return kind(value)


if __name__ == "__main__":
    main(*sys.argv[1:])
