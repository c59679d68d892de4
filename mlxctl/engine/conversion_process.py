"""The process that runs mlx-lm's conversion: `python -m mlxctl.engine.conversion_process TASK`.

TASK is a JSON object: `source`, `made` (the directory to make), `memory_bytes`, and arguments of
`mlx_lm.convert`. The last line of the output is the error, if any. Code of the model is never run.
"""

import json
import os
import resource
import sys
import threading
from typing import Any

from mlxctl.engine.backend import prefer_openblas
from mlxctl.terminal_text import echo

# Freed buffers that Metal keeps for reuse.
_BUFFER_CACHE_BYTES = 1 << 30


def main() -> int:
    """Run the task of the command line; return the exit code."""
    task: dict[str, Any] = json.loads(sys.argv[1])
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _limit_memory(task.pop("memory_bytes"))
    prefer_openblas()
    import mlx.core as mx
    from mlx_lm.convert import convert

    mx.set_cache_limit(_BUFFER_CACHE_BYTES)
    try:
        convert(task.pop("source"), task.pop("made"), trust_remote_code=False, **task)
    except Exception as error:
        words = " ".join(str(error).split())
        echo("there is not enough memory" if _is_memory(error) else words or type(error).__name__)
        return 1
    return 0


def _is_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or "alloc" in str(error)


def _limit_memory(num_bytes: int) -> None:
    """Let allocations fail above the limit, on Linux.

    macOS does not enforce one.
    """
    if sys.platform == "linux":
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limit = num_bytes if hard == resource.RLIM_INFINITY else min(num_bytes, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def _end_with_parent() -> None:
    """End this process when the other one has ended: its pipe closes."""
    # Not through a buffer, whose lock would outlive the interpreter.
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
