"""Edits an alias in the settings file and keeps everything else unchanged.

The file is edited as lines, so that comments, order and spacing stay. It is replaced atomically, and only
when parsing the edited text gives exactly the intended content.
"""

import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from mlxctl.ir.errors import SettingsError
from mlxctl.state.settings.documents import DocumentError, parse_toml, read_text

_HEADER = "[library.aliases]"


def write_alias(file: Path, name: str, target: str) -> None:
    """Set the alias `name`; create the file if needed. Raises SettingsError."""
    _change(file, name, target)


def remove_alias(file: Path, name: str) -> None:
    """Remove the alias `name`. Raises SettingsError, also when it is missing."""
    _change(file, name, None)


def _change(file: Path, name: str, target: str | None) -> None:
    text = _read(file)
    content = _parse(file, text)
    aliases = _aliases(content)
    if target is None and name not in aliases:
        raise SettingsError(f"there is no alias {name!r} in {str(file)!r}")
    lines = text.splitlines()
    _edit(lines, name, target)
    edited = "\n".join(lines) + "\n"
    wanted = {key: value for key, value in (aliases | {name: target}).items() if value is not None}
    if not _matches(edited, content, wanted):
        raise SettingsError(
            f"alias {name!r} in {str(file)!r} is written in a form that mlxctl cannot edit;"
            f" change it under {_HEADER}"
        )
    replace_settings_file(file, edited)


def _edit(lines: list[str], name: str, target: str | None) -> None:
    header = next(
        (number for number, line in enumerate(lines) if line.partition("#")[0].strip() == _HEADER), None
    )
    if header is None:
        lines += [*([""] if lines else []), _HEADER]
        header = len(lines) - 1
    end = next(
        (number for number in range(header + 1, len(lines)) if lines[number].lstrip().startswith("[")),
        len(lines),
    )
    keys = {
        json.dumps(name, ensure_ascii=False),
        f"'{name}'",
        *([name] if re.fullmatch(r"[A-Za-z0-9_-]+", name) else []),
    }
    line_number = next(
        (number for number in range(header + 1, end) if lines[number].partition("=")[0].strip() in keys), None
    )
    new = (
        []
        if target is None
        else [f"{json.dumps(name, ensure_ascii=False)} = {json.dumps(target, ensure_ascii=False)}"]
    )
    if line_number is None:
        while end > header + 1 and not lines[end - 1].strip():
            end -= 1
        lines[end:end] = new
    else:
        lines[line_number : line_number + 1] = new


def _matches(text: str, before: dict[str, Any], aliases: dict[str, Any]) -> bool:
    try:
        after = parse_toml(text)
    except DocumentError:
        return False
    return _aliases(after) == aliases and _without_aliases(after) == _without_aliases(before)


def _aliases(content: dict[str, Any]) -> dict[str, Any]:
    library = content.get("library")
    aliases = library.get("aliases") if isinstance(library, dict) else None
    return dict(aliases) if isinstance(aliases, dict) else {}


def _without_aliases(content: dict[str, Any]) -> dict[str, Any]:
    library = content.get("library")
    rest = (
        {key: value for key, value in library.items() if key != "aliases"}
        if isinstance(library, dict)
        else {}
    )
    return {key: value for key, value in content.items() if key != "library"} | (
        {"library": rest} if rest else {}
    )


def _read(file: Path) -> str:
    try:
        return read_text(file)
    except FileNotFoundError:
        return ""
    except (OSError, DocumentError) as error:
        raise SettingsError(f"settings file {str(file)!r} cannot be read: {error}") from None


def _parse(file: Path, text: str) -> dict[str, Any]:
    try:
        return parse_toml(text)
    except DocumentError as error:
        raise SettingsError(f"settings file {str(file)!r} cannot be read: {error}") from None


def replace_settings_file(file: Path, text: str) -> None:
    """Write the file, or replace it atomically; a symbolic link is kept.

    The file may hold API keys: only its owner may read a new one. Raises SettingsError.
    """
    path = file.resolve()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        new = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.write(text)
            new.chmod(mode)
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)
    except OSError as error:
        raise SettingsError(f"settings file {str(file)!r} cannot be written: {error.strerror}") from None
