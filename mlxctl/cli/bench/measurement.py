"""What makes a function a measurement of a server: it returns a scenario, and gets the options that every
measurement has.
"""

import inspect
from collections.abc import Callable
from dataclasses import Field, fields
from functools import wraps
from typing import TYPE_CHECKING, Any

from mlxctl.cli.bench.shared_options import SharedOptions
from mlxctl.cli.failures import plain_failures

if TYPE_CHECKING:
    from mlxctl.bench.scenarios import Scenario


def measurement(make_scenario: Callable[..., "Scenario"]) -> Callable[..., None]:
    """Return the command that measures the scenario which `make_scenario` makes of its own options.

    Typer reads the options off a signature, so this one has them all: those of `make_scenario`, then
    SharedOptions.
    """

    @wraps(make_scenario)
    def command(**values: Any) -> None:
        shared = SharedOptions(**{field.name: values.pop(field.name) for field in fields(SharedOptions)})
        with plain_failures():
            from mlxctl.cli.bench.running import run_scenario

            run_scenario(make_scenario(**values), shared)

    own = inspect.signature(make_scenario).parameters.values()
    signature = inspect.Signature([*own, *map(_parameter, fields(SharedOptions))])
    command.__signature__ = signature  # type: ignore[attr-defined]
    command.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    return command


def _parameter(field: "Field[Any]") -> inspect.Parameter:
    return inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type
    )
