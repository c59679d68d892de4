"""What an alias may stand for."""

from pathlib import Path

from mlxctl.cli.models.shared_options import open_library


def check_target(target: str, config: Path | None) -> str:
    """Return the target as it is to be written: a directory in full, anything else as it is.

    Raises ModelNotFoundOnDisk.
    """
    library = open_library(config if config and config.exists() else None)
    found = library.resolve(target)
    return (
        target
        if target in library.aliases or not Path(target).expanduser().is_dir()
        else str(found.path.resolve())
    )
