"""`mlxctl` and `python -m mlxctl`."""


def main() -> None:
    """Run the command line."""
    from mlxctl.cli import app

    app(prog_name="mlxctl")


if __name__ == "__main__":
    main()
