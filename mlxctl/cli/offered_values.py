"""The values that a TAB offers for an option or argument."""

import re
from collections.abc import Iterable
from itertools import chain
from typing import Literal, get_args, get_origin, get_type_hints

import click
from click.shell_completion import CompletionItem

# SEC: a name like `$(command)` would run once it is on the command line.
_SAFE_WORD = re.compile(r"[\w@%+=:,./ -]+")
_OFFERED_BY_METAVAR = {
    "MODEL": "models",
    "AGENT": "agents",
    "AGENT...": "agents",
    "FILE": "file",
    "[FILE]": "file",
    "[FILE...]": "file",
    "PATH": "file",
    "DIRECTORY": "dir",
    "DIR": "dir",
}


def complete_value(
    offers: str | tuple[str, ...] | None, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Return the values that begin with `incomplete`; the shell completes paths.

    `offers` are words, or name them: "models", "models or short names", "short names", "agents", "file",
    "dir". Without it, the metavar decides, else the values of the setting with the parameter's name.
    """
    offers = offers or _OFFERED_BY_METAVAR.get(parameter.metavar or "", "setting")
    if offers in ("file", "dir"):
        return [CompletionItem(incomplete, type=offers)]
    words = (word for word in _words(offers, parameter.name, incomplete) if word.startswith(incomplete))
    return [CompletionItem(word) for word in words if _SAFE_WORD.fullmatch(word)]


def _words(offers: str | tuple[str, ...], name: str, incomplete: str) -> Iterable[str]:
    match offers:
        case "models":
            from mlxctl.library.library import completion_names

            return completion_names()
        case "short names":
            from mlxctl.library.short_names import read_short_names

            return chain(*read_short_names().values())
        case "models or short names":
            short_names = _words("short names", name, incomplete) if incomplete else ()
            return chain(_words("models", name, incomplete), short_names)
        case "agents":
            from mlxctl.state.locations import agents_file
            from mlxctl.state.stores.agents import read_agent_ids

            return read_agent_ids(agents_file())
        case "setting":
            return _setting_values(name)
    return offers


def _setting_values(name: str) -> tuple[str, ...]:
    """Return the values of a setting that has fixed ones."""
    from mlxctl.state.settings import section_types

    for section in section_types().values():
        kind = get_type_hints(section).get(name)
        for choice in (kind, *get_args(kind)):
            if get_origin(choice) is Literal:
                return get_args(choice)
    return ()
