"""`mlxctl` and `python -m mlxctl`."""

import sys


def main() -> None:
    """Run the command line."""
    # PERF: completion asks for these at the press of a key, and Typer with its pydantic takes three times as long as the names.
    if sys.argv[1:] == ["completion", "models"]:
        from mlxctl.models.offered_names import offered_names

        print("\n".join(offered_names()))
        return
    from mlxctl.cli import app

    app(prog_name="mlxctl")


if __name__ == "__main__":
    main()
