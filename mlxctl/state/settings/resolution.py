"""Resolves settings: defaults < `mlxctl.toml` < environment < flags.

Unknown keys and invalid values are errors that name the key and its source.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

from mlxctl.ir.errors import UsageError
from mlxctl.state import locations
from mlxctl.state.settings.documents import DocumentError, parse_toml, read_text
from mlxctl.state.settings.sections import Settings, list_types, section_types
from mlxctl.state.settings.values import convert

_MAX_COMPARED_CHARS = 100
# Likeness of two names that differ in a letter or two. Variables that are no settings, as MLXCTL_API_KEY, are
# less like any.
_MISSPELLED = 0.9

ENVIRONMENT_PREFIX = "MLXCTL_"
CONFIG_VARIABLE = "MLXCTL_CONFIG"


class SettingValue(NamedTuple):
    """One value and its source."""

    section: str
    key: str
    value: object
    origin: str


def resolve(
    *,
    config_file: Path | None = None,
    environment: Mapping[str, str],
    overrides: Mapping[str, object] | None = None,
    flags: Mapping[str, Mapping[str, object]] | None = None,
    flag_names: Mapping[str, str] | None = None,
) -> Settings:
    """Return the settings for the lifetime of the process.

    A `config_file` given here or as MLXCTL_CONFIG must exist; the default one (`locations.config_file()`)
    need not. `overrides` are tables as in the file, of a program that embeds the server, and precede the
    environment. `flags` maps section to key to value; None or an empty list means not given. Raises
    UsageError.
    """
    file = _read_file(config_file or _file_from_environment(environment))
    values: dict[str, dict[str, object]] = {section: {} for section in section_types()}
    for setting in (
        *_from_tables(*file),
        *_from_environment(environment),
        *_from_tables(overrides or {}, "the given settings"),
        *_from_flags(flags or {}, flag_names or {}),
    ):
        values[setting.section][setting.key] = _checked(setting)
    lists: dict[str, Any] = {**_lists(*file), **_lists(overrides or {}, "the given settings")}
    return Settings(**{name: kind(**values[name]) for name, kind in section_types().items()}, **lists)


def settings_file(environment: Mapping[str, str]) -> Path:
    """Return the default file of `resolve`; it need not exist."""
    return _file_from_environment(environment) or locations.config_file()


def _file_from_environment(environment: Mapping[str, str]) -> Path | None:
    return Path(environment[CONFIG_VARIABLE]) if environment.get(CONFIG_VARIABLE) else None


def _checked(setting: SettingValue) -> object:
    kind = section_types()[setting.section]
    declared = {field.name: field for field in fields(kind)}[setting.key]
    try:
        return convert(setting.value, get_type_hints(kind)[setting.key], declared)
    except ValueError as error:
        raise UsageError(f"{setting.origin}: {error}") from None


def _keys(section: str) -> list[str]:
    return [field.name for field in fields(section_types()[section])]


def _read_file(explicit: Path | None) -> tuple[Mapping[str, object], str]:
    """Return the tables of the settings file, and its name.

    Raises UsageError.
    """
    path = explicit or locations.config_file()
    try:
        return parse_toml(read_text(path)), repr(str(path))
    except FileNotFoundError:
        if explicit is None:
            return {}, ""
        raise UsageError(f"settings file {str(path)!r} does not exist") from None
    except (OSError, DocumentError) as error:
        raise UsageError(f"settings file {str(path)!r} cannot be read: {error}") from None


def _lists(tables: Mapping[str, object], source: str) -> dict[str, tuple[object, ...]]:
    """Return the lists of tables. Raises UsageError."""
    found = {}
    for name in tables.keys() & list_types().keys():
        entries = tables[name]
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise UsageError(f"{name!r} in {source} must be a list of tables: write [[{name}]] above each")
        found[name] = tuple(_entry(name, number, entry, source) for number, entry in enumerate(entries))
    return found


def _entry(name: str, number: int, table: Mapping[str, object], source: str) -> object:
    kind = list_types()[name]
    declared = {field.name: field for field in fields(kind)}
    place = f"{name}[{number}]"
    for key in table:
        if key not in declared:
            raise UsageError(f"unknown key '{place}.{key}' in {source}; {_offer(key, declared)}")
    for key, field in declared.items():
        if key not in table and field.default is MISSING:
            raise UsageError(f"'{place}.{key}' is missing in {source}")
    try:
        hints = get_type_hints(kind)
        return kind(**{key: convert(value, hints[key], declared[key]) for key, value in table.items()})
    except ValueError as error:
        raise UsageError(f"{place!r} in {source}: {error}") from None


def _from_tables(tables: Mapping[str, object], source: str) -> Iterator[SettingValue]:
    for section, table in tables.items():
        if section in list_types():
            continue
        if section not in section_types():
            offer = _offer(section, (*section_types(), *list_types()))
            raise UsageError(f"unknown section {section!r} in {source}; {offer}")
        if not isinstance(table, dict):
            raise UsageError(f"{section!r} in {source} must be a table: write [{section}] above its keys")
        for key, value in table.items():
            if key not in _keys(section):
                raise UsageError(f"unknown key '{section}.{key}' in {source}; {_offer(key, _keys(section))}")
            yield SettingValue(section, key, value, f"'{section}.{key}' in {source}")


def _from_environment(environment: Mapping[str, str]) -> Iterator[SettingValue]:
    known = {
        f"{ENVIRONMENT_PREFIX}{section}_{key}".upper(): (section, key)
        for section in section_types()
        for key in _keys(section)
    }
    prefixes = tuple(f"{ENVIRONMENT_PREFIX}{section}_".upper() for section in section_types())
    for variable, text in environment.items():
        if variable in known:
            section, key = known[variable]
            yield SettingValue(section, key, text, f"environment variable {variable}")
        elif variable.startswith(prefixes) or _is_misspelled(variable, known):
            raise UsageError(f"environment variable {variable} names no setting; {_offer(variable, known)}")


def _is_misspelled(variable: str, known: Iterable[str]) -> bool:
    """Whether a variable outside all sections is nearly a setting's name."""
    from difflib import get_close_matches

    is_ours = variable.startswith(ENVIRONMENT_PREFIX)
    return is_ours and bool(get_close_matches(variable[:_MAX_COMPARED_CHARS], known, n=1, cutoff=_MISSPELLED))


def _offer(name: str, known: Iterable[str]) -> str:
    """Return a question that offers the most similar name, or all names."""
    from difflib import get_close_matches

    names = list(known)
    close = get_close_matches(name[:_MAX_COMPARED_CHARS], names, n=1)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(names)}"


def _from_flags(
    flags: Mapping[str, Mapping[str, object]], names: Mapping[str, str]
) -> Iterator[SettingValue]:
    for section, given in flags.items():
        for key, value in given.items():
            assert key in _keys(section), f"a flag is made for a setting: {section}.{key}"
            if value not in (None, []):
                yield SettingValue(section, key, value, names.get(key, f"--{key.replace('_', '-')}"))
