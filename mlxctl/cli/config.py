"""`mlxctl config`: the settings file and the settings in effect."""

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated, Any

from mlxctl.cli.commands import group
from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.parameters import Option
from mlxctl.ir.errors import SettingsError
from mlxctl.state.settings import (
    describe_field,
    list_types,
    replace_settings_file,
    resolve,
    section_types,
    settings_file,
)
from mlxctl.terminal_text import echo

app = group("config", example="mlxctl config init")
ConfigFile = Annotated[
    Path | None,
    Option("--config", metavar="FILE", help="Settings file to use instead of the usual one."),
]


@app.command()
def path(config: ConfigFile = None) -> None:
    """Print the path of the settings file; it need not exist."""
    echo(config or settings_file(os.environ))


@app.command(epilog="Example: mlxctl config show --changed")
def show(
    changed: Annotated[
        bool, Option("--changed", help="Only settings that differ from their defaults.")
    ] = False,
    as_json: Annotated[bool, Option("--json", help="Print JSON instead of TOML.")] = False,
    config: ConfigFile = None,
) -> None:
    """Print the settings in effect, from defaults, file and environment.

    Keys are hidden.
    """
    with report_errors():
        settings = resolve(config_file=config, environment=os.environ)
    sections = {name: _values(getattr(settings, name), changed=changed) for name in section_types()}
    lists = {name: [_plain(asdict(entry)) for entry in getattr(settings, name)] for name in list_types()}
    if as_json:
        import json

        echo(json.dumps({name: values for name, values in (sections | lists).items() if values}, indent=2))
        return
    if not any((sections | lists).values()):
        echo("# every setting has its default")
    for name, values in sections.items():
        if values:
            echo(f"[{name}]")
            for key, value in values.items():
                echo(f"{key} = {_toml(value)}" if value is not None else f"# {key} is not set")
            echo()
    for line in _list_lines(lists):
        echo(line)


@app.command(epilog="Example: mlxctl config init && open ~/.config/mlxctl/mlxctl.toml")
def init(
    force: Annotated[
        bool, Option("--force", help="Rewrite a file that has comments; it is kept as FILE.bak.")
    ] = False,
    config: ConfigFile = None,
) -> None:
    """Write a settings file with every setting and its default.

    Descriptions and defaults are comments. The values of a file that exists are kept.
    """
    with report_errors():
        file = config or settings_file(os.environ)
        text = file.read_text(encoding="utf-8") if _is_valid(file) else ""
        new = _template(tomllib.loads(text))
        if tomllib.loads(new) != {name: {} for name in section_types()} | tomllib.loads(text):
            raise SettingsError(
                f"{str(file)!r} has values that cannot be copied; write them into a new file by hand"
            )
        if "#" in text:
            backup = file.with_name(f"{file.name}.bak")
            if not force:
                raise SettingsError(
                    f"{str(file)!r} has comments; --force rewrites it with its values, and keeps it as "
                    f"{str(backup)!r}"
                )
            replace_settings_file(backup, text)
        replace_settings_file(file, new)
    echo(file)


def _is_valid(file: Path) -> bool:
    """Return whether a settings file exists. Raises SettingsError for an invalid one."""
    if not file.exists():
        return False
    resolve(config_file=file, environment={})
    return True


def _values(section: Any, *, changed: bool) -> dict[str, Any]:
    """Return the section's values as JSON has them, secrets hidden."""
    values: dict[str, Any] = {}
    default = type(section)()
    for field in fields(section):
        value = getattr(section, field.name)
        if changed and value == getattr(default, field.name):
            continue
        values[field.name] = _plain(value) if field.repr or not value else "(hidden)"
    return values


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _toml(value: Any) -> str:
    """Return a value as TOML.

    Its strings, numbers and lists are written as in JSON, tables are not.
    """
    import json

    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _template(content: Mapping[str, Any]) -> str:
    """Return the text of a settings file with this content.

    All other settings are comments.
    """
    import textwrap

    lines = ["# Settings of mlxctl. Remove the `#` in front of a setting to change it."]
    for name, kind in section_types().items():
        lines += ["", f"[{name}]"]
        own = content.get(name, {})
        for key, value in _values(kind(), changed=False).items():
            lines += [
                "",
                *textwrap.wrap(describe_field(kind, key), 100, initial_indent="# ", subsequent_indent="# "),
            ]
            is_plain = key in own and not isinstance(own[key], dict)
            lines.append(
                f"{key} = {_toml(own[key])}"
                if is_plain
                else f"# {key} = {_toml(value) if value is not None else ''}".rstrip()
            )
        tables = {key: table for key, table in own.items() if isinstance(table, dict)}
        for key, table in tables.items():
            lines += [
                "",
                f"[{name}.{key}]",
                *(f"{_toml(word)} = {_toml(item)}" for word, item in table.items()),
            ]
    lines += _list_lines({name: content.get(name, []) for name in list_types()})
    return "\n".join(lines) + "\n"


def _list_lines(lists: Mapping[str, list[dict[str, Any]]]) -> Iterator[str]:
    for name, entries in lists.items():
        for entry in entries:
            yield f"[[{name}]]"
            yield from (f"{key} = {_toml(value)}" for key, value in entry.items() if value is not None)
            yield ""
