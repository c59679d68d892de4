"""Files with secrets: keys, passphrases and passwords, one per line."""

from pathlib import Path

from mlxctl.errors import SettingsError


def secret_lines(path: Path, setting: str) -> tuple[str, ...]:
    """Return the lines of a file, without empty ones.

    Raises SettingsError, which names `setting`.
    """
    try:
        lines = tuple(line for line in map(str.strip, path.read_text().splitlines()) if line)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{setting}: {str(path)!r} cannot be read: {error}") from None
    if not lines:
        raise SettingsError(f"{setting}: {str(path)!r} is empty")
    return lines
