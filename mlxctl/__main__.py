"""`mlxctl` and `python -m mlxctl`."""

import gc
import sys

_OBJECTS_BETWEEN_COLLECTIONS = 20_000


def main() -> None:
    """Run the command line."""
    # PERF: what is imported stays; to look through it for garbage again and again takes a fifth of the time
    # to start.
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    # PERF: completion asks for these at the press of a key, and Typer takes longer than the names.
    match sys.argv[1:]:
        case ["completion", "models"]:
            from mlxctl.models.completion_names import offered_names

            print("\n".join(offered_names()))
            return
        case ["completion", "agents"]:
            from mlxctl.locations import agents_file
            from mlxctl.stores.agent_ids import read_agent_ids

            print("\n".join(read_agent_ids(agents_file())))
            return
    from mlxctl.cli import app

    app(prog_name="mlxctl")


if __name__ == "__main__":
    main()
