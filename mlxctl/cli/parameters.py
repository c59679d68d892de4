"""Options and arguments, read off the signature of a command's function.

`lines: Annotated[int, Option("--lines", "-n", min=1, help="Number of lines.")] = 20` declares an option with
this type and default; `Argument(...)` declares an argument. A `list` takes several values, `bool` is a flag.
"""

import inspect
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial, wraps
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import click

from mlxctl.cli.error_reports import report_errors

_METAVARS: dict[object, str] = {int: "N", float: "X", Path: "PATH", str: "TEXT"}
_PLAIN_TYPES: dict[object, click.ParamType[Any]] = {int: click.INT, float: click.FLOAT, str: click.STRING}


class Argument:
    """Attributes of an argument: click's, and `min` and `max` of a number.

    `offers` is what a TAB offers, see `complete_value`.
    """

    def __init__(self, **attributes: Any) -> None:
        self.range = attributes.pop("min", None), attributes.pop("max", None)
        self.offers = attributes.pop("offers", None)
        self.attributes = attributes


class Option(Argument):
    """Attributes of an option; also `heading`, its section on the help page.

    Without names it is called like the parameter.
    """

    def __init__(self, *names: str, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.names = names


class HelpedOption(click.Option):
    """An option with the heading of its section on the help page."""

    def __init__(self, *names: Any, heading: str = "Options", **attributes: Any) -> None:
        super().__init__(*names, **attributes)
        self.heading = heading


class HelpedArgument(click.Argument):
    """An argument that usage lines show as `NAME...` or `[NAME...]`."""

    def get_usage_pieces(self, ctx: click.Context) -> list[str]:
        name = self.make_metavar(ctx).strip("[].") + ("..." if self.nargs != 1 else "")
        return [name if self.required else f"[{name}]"]

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        name, text = super().get_help_record(ctx)
        return name, f"{text}  [required]" if self.required else text


class FiniteRange(click.FloatRange):
    """A number in a range; NaN is in none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


def read_parameters(function: Callable[..., Any]) -> list[click.Parameter]:
    """Return the parameters of a command, in the order of its function's."""
    return [_parameter(each) for each in inspect.signature(function).parameters.values()]


def _parameter(parameter: inspect.Parameter) -> click.Parameter:
    annotation, declared = get_args(parameter.annotation)
    kind, is_many = _value_type(annotation)
    attributes = {"shell_complete": partial(_complete, declared.offers), **declared.attributes}
    if parameter.default is inspect.Parameter.empty:
        attributes["required"] = True
    else:
        attributes["default"] = parameter.default
    if is_many:
        attributes["callback"] = _as_list
    if not isinstance(declared, Option):
        attributes |= {"type": _click_type(kind, declared), "nargs": -1 if is_many else 1}
        return HelpedArgument([parameter.name], **attributes)
    attributes = {"show_default": True, "show_envvar": True, **attributes}
    name = parameter.name.replace("_", "-")
    if kind is bool:
        names = declared.names or (f"--{name}/--no-{name}",)
        attributes["is_flag"] = True
    else:
        names = declared.names or (f"--{name}",)
        attributes |= {"type": _click_type(kind, declared), "multiple": is_many}
        attributes["metavar"] = attributes.get("metavar") or _METAVARS[kind]
    return HelpedOption([*names, parameter.name], **attributes)


def _value_type(annotation: Any) -> tuple[Any, bool]:
    """Return the type of a value, and whether there may be several."""
    if get_origin(annotation) in (Union, UnionType):
        annotation = next(choice for choice in get_args(annotation) if choice is not NoneType)
    return (get_args(annotation)[0], True) if get_origin(annotation) is list else (annotation, False)


def _click_type(kind: Any, declared: Argument) -> click.ParamType[Any]:
    if kind is Path:
        return click.Path(path_type=Path)
    if declared.range != (None, None):
        return (FiniteRange if kind is float else click.IntRange)(*declared.range)
    return _PLAIN_TYPES[kind]


def _as_list(context: click.Context, parameter: click.Parameter, values: Any) -> list[Any] | None:  # noqa: ARG001
    """Return several values as a list; None without any.

    Then the value of the settings holds.
    """
    return list(values or ()) or None


def _complete(offers: Any, context: click.Context, parameter: click.Parameter, incomplete: str) -> Any:  # noqa: ARG001
    """Return what a TAB offers for a value."""
    from mlxctl.cli.offered_values import complete_value

    return complete_value(offers, parameter, incomplete)


def opening(
    open_target: Callable[..., AbstractContextManager[Any]],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator for commands whose first parameter is what `open_target` opens.

    The options of `open_target` are added to the command's. Expected errors are printed.
    """
    added = list(inspect.signature(open_target).parameters.values())

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**values: Any) -> None:
            options = {each.name: values.pop(each.name) for each in added}
            with report_errors(), open_target(**options) as target:
                command(target, **values)

        own = list(inspect.signature(command).parameters.values())[1:]
        run.__signature__ = inspect.Signature([*own, *added])  # type: ignore[attr-defined]
        return run

    return decorate
