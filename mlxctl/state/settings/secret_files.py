"""Files with secrets: keys, passphrases and passwords, one per line."""

import os
import stat
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from mlxctl.ir.errors import SettingsError
from mlxctl.state.settings.documents import DocumentError, parse_toml, read_text
from mlxctl.state.settings.sections import Settings, section_types

_READABLE = stat.S_IRGRP | stat.S_IROTH


def secret_of_environment(variable: str, setting: str) -> str:
    """Return the secret in an environment variable. Raises SettingsError, which names `setting`."""
    if not (secret := os.environ.get(variable, "").strip()):
        raise SettingsError(f"{setting}: the environment variable {variable} is not set")
    return secret


def secret_lines(path: Path, setting: str) -> tuple[str, ...]:
    """Return the lines of a file, without empty ones.

    Raises SettingsError, which names `setting`.
    """
    try:
        lines = tuple(line for line in map(str.strip, read_text(path).splitlines()) if line)
    except (OSError, DocumentError) as error:
        raise SettingsError(f"{setting}: {str(path)!r} cannot be read: {error}") from None
    if not lines:
        raise SettingsError(f"{setting}: {str(path)!r} is empty")
    return lines


def exposed_files(settings: Settings, settings_file: Path) -> Iterator[Path]:
    """Yield the user's files with keys or passwords that others can read."""
    if _is_exposed(settings_file) and _has_secrets(settings_file):
        yield settings_file
    server = settings.server
    files = (server.api_key_file, server.tls_key, server.tls_key_password_file)
    yield from filter(_is_exposed, filter(None, (*files, settings.policy.passphrase_file)))


def _is_exposed(file: Path) -> bool:
    try:
        status = file.stat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid() and bool(status.st_mode & _READABLE)


def _has_secrets(settings_file: Path) -> bool:
    try:
        tables = parse_toml(read_text(settings_file))
    except (OSError, DocumentError):
        return False
    return any(
        tables.get(section, {}).get(field.name)
        for section, kind in section_types().items()
        for field in fields(kind)
        # As in error messages.
        if not field.repr
    )
