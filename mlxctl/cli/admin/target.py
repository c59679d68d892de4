"""The policy store of a server or of this machine."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.inspector.served_policy import PolicyTarget, ServedPolicy
from mlxctl.cli.options import ApiKey, ConfigFile, ServerUrl, print_json, read_settings, server_url

Local = Annotated[
    bool, typer.Option("--local", help="Use the policy store of this machine, without a server.")
]


def with_policy(command: Callable[..., None]) -> Callable[..., None]:
    """Open the policy store for a command.

    The store is the command's first argument, and its options are added to the command's. Errors are printed.
    """

    @wraps(command)
    def run(
        *,
        local: bool,
        url: str | None,
        api_key: str | None,
        config: Path | None,
        **arguments: Any,
    ) -> None:
        with report_errors(), policy_target(url=url, api_key=api_key, local=local, config=config) as policy:
            command(policy, **arguments)

    # Typer reads the options off the signature.
    own = list(inspect.signature(command).parameters.values())[1:]
    parameters = [*own, *inspect.signature(_target_options).parameters.values()]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _target_options(
    local: Local = False, url: ServerUrl = None, api_key: ApiKey = None, config: ConfigFile = None
) -> None:
    """Options that name a policy store."""


@contextmanager
def policy_target(
    *, url: str | None, api_key: str | None, local: bool, config: Path | None = None
) -> Iterator[PolicyTarget]:
    """Yield the store. Raises SettingsError, ServerUnreachable, AuthenticationFailed."""
    if local:
        from mlxctl.server.policy.admin import PolicyAdmin
        from mlxctl.server.wiring.policy import open_policy

        yield PolicyAdmin(*open_policy(read_settings(config)))
        return
    from mlxctl.cli.inspector.connection import ServerConnection

    with ServerConnection(server_url(url), api_key=api_key) as server:
        yield ServedPolicy(server)


def show(value: msgspec.Struct) -> None:
    """Print a value as JSON."""
    print_json(msgspec.to_builtins(value))
