"""Flags that stand for settings: text and default come from the section, so help and behavior cannot
disagree.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_type_hints

import typer

from mlxctl.settings import Settings, describe_default, describe_field


def setting(section: type, field: str, *flags: str, metavar: str | None = None) -> Any:
    """Return the Typer option for `section.field`.

    A flag that is not given is None, so that weaker sources hold.
    """
    default = describe_default(section, field)
    text = describe_field(section, field) + (f"  [default: {default}]" if default else "")
    return typer.Option(*flags, help=text, metavar=metavar, show_default=False)


def flags_by_section(parameters: Mapping[str, object]) -> dict[str, dict[str, object]]:
    """Sort a command's parameters, each named like the setting that it stands for, into sections; others are
    left out.
    """
    sections = {
        name: {field.name for field in fields(kind)} for name, kind in get_type_hints(Settings).items()
    }
    return {
        section: {key: value for key, value in parameters.items() if key in keys}
        for section, keys in sections.items()
    }
