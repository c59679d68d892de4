"""mlxctl: serve, probe, chat with and measure MLX models.

`mlxctl.embed` returns the server as an ASGI application.
"""

import sys

if "".join(sys.argv[:1]).endswith("/mlxctl") or sys.orig_argv[1:3] == ["-m", "mlxctl"]:
    # Ctrl-C during the imports ends the command without a stack trace. `__main__` takes it back.
    import _signal  # type: ignore[import-not-found]

    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

__version__ = "0.1.0"


def on_demand(package: str, names: Sequence[str], modules: Sequence[str]) -> Callable[[str], Any]:
    """Return a package's `__getattr__` that imports its modules on demand.

    The modules are imported one after the other, until one has the name. PERF: a shell that completes a name
    imports one small module, not the whole package. No module may be called like a name.
    """

    def find(name: str) -> Any:
        for module in modules if name in names else ():
            found = vars(import_module(f"{package}.{module}"))
            if name in found:
                return found[name]
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find


__getattr__ = on_demand(__name__, ("embed", "EmbeddedServer"), ("server.embedded",))
