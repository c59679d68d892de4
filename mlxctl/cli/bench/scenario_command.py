"""The decorator of commands that measure a scenario on a server."""

import inspect
from collections.abc import Callable
from dataclasses import Field, fields
from functools import wraps
from typing import TYPE_CHECKING, Any

from mlxctl.cli.bench.options import SharedOptions
from mlxctl.cli.error_reports import report_errors

if TYPE_CHECKING:
    from mlxctl.bench.scenarios import Scenario


def scenario_command(make_scenario: Callable[..., "Scenario"]) -> Callable[..., None]:
    """Return a command that measures the scenario of `make_scenario`.

    Its options are the parameters of `make_scenario`, then the fields of SharedOptions: Typer reads them off
    the signature.
    """

    @wraps(make_scenario)
    def command(**values: Any) -> None:
        shared = SharedOptions(**{field.name: values.pop(field.name) for field in fields(SharedOptions)})
        with report_errors():
            from mlxctl.cli.bench.scenario_run import run_scenario

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
