"""The policy store of a server or of this machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from mlxctl.cli.options import print_json, read_settings, server_url
from mlxctl.inspector.served_policy import PolicyTarget, ServedPolicy

Local = Annotated[
    bool, typer.Option("--local", help="Use the policy store of this machine, without a server.")
]


@contextmanager
def policy_target(
    *, url: str | None, api_key: str | None, local: bool, config: Path | None = None
) -> Iterator[PolicyTarget]:
    """Yield the store. Raises SettingsError, ServerUnreachable, AuthenticationFailed."""
    if local:
        from mlxctl.bootstrap.policy import open_policy
        from mlxctl.policy.admin import PolicyAdmin

        yield PolicyAdmin(*open_policy(read_settings(config)))
        return
    from mlxctl.inspector.connection import ServerConnection

    with ServerConnection(server_url(url), api_key=api_key) as server:
        yield ServedPolicy(server)


def show(value: msgspec.Struct) -> None:
    """Print a value as JSON."""
    print_json(msgspec.to_builtins(value))
