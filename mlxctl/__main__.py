"""`mlxctl` and `python -m mlxctl`."""

import gc
import io
import signal
import sys

_OBJECTS_BETWEEN_COLLECTIONS = 20_000


def main() -> None:
    """Run the command line."""
    # PERF: imported objects stay alive; repeated garbage collection takes a fifth of the start-up time.
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    # PERF: shells call these at each TAB, and importing Typer takes longer than reading the names.
    match sys.argv[1:]:
        case ["completion", "models"]:
            from mlxctl.models.library import completion_names

            print("\n".join(completion_names()))
            return
        case ["completion", "agents"]:
            from mlxctl.locations import agents_file
            from mlxctl.stores.agent_ids import read_agent_ids

            print("\n".join(read_agent_ids(agents_file())))
            return
    # An output that is not UTF-8, or the name of a file that is not, shows "?" instead of a stack trace.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    # Ctrl-C during the imports ends the program without a stack trace.
    is_interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_interruptible:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from mlxctl.cli import app

    if is_interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    app(prog_name="mlxctl")


if __name__ == "__main__":
    main()
