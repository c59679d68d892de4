"""`mlxctl admin limits`."""

from typing import Annotated

import typer

from mlxctl.cli.admin.target import show, with_policy
from mlxctl.cli.inspector.served_policy import PolicyTarget
from mlxctl.cli.lazy import create_app

KeyId = Annotated[
    str | None,
    typer.Option("--key", metavar="KEY_ID", help="Key.  [default: the default limits of all keys]"),
]
app = create_app(no_args_is_help=True, epilog="Example: mlxctl admin limits show")
app.callback(help="Show and set rate limits.")(lambda: None)


@app.command("show", epilog="Example: mlxctl admin limits show --key key_0123456789abcdef")
@with_policy
def show_limits(policy: PolicyTarget, key_id: KeyId = None) -> None:
    """Show limits as JSON."""
    show(policy.limits() if key_id is None else policy.key_limits(key_id))


@app.command("set", epilog="Example: mlxctl admin limits set --requests 60 --tokens 100000 --concurrent 4")
@with_policy
def set_limits(
    policy: PolicyTarget,
    key_id: KeyId = None,
    model: Annotated[
        str | None, typer.Option("--for-model", metavar="GLOB", help="Limits for these models, with --key.")
    ] = None,
    requests: Annotated[int | None, typer.Option(min=0, help="Requests per minute; 0 is no limit.")] = None,
    tokens: Annotated[int | None, typer.Option(min=0, help="Tokens per minute; 0 is no limit.")] = None,
    concurrent: Annotated[int | None, typer.Option(min=0, help="Open requests; 0 is no limit.")] = None,
    burst: Annotated[int | None, typer.Option(min=0, help="Requests per second; 0 is no limit.")] = None,
) -> None:
    """Replace limits, from the next request on.

    A limit that is not given is taken from the defaults.
    """
    from mlxctl.ir.errors import UsageError
    from mlxctl.ir.policy import KeyLimits, Limits

    if model is not None and key_id is None:
        raise UsageError("--for-model needs --key")
    limits = Limits(
        requests_per_minute=requests, tokens_per_minute=tokens, concurrent=concurrent, burst=burst
    )
    if key_id is None:
        show(policy.set_limits(limits))
        return
    own = policy.key_limits(key_id)
    changed = (
        KeyLimits(all_models=limits, models=own.models)
        if model is None
        else KeyLimits(all_models=own.all_models, models={**own.models, model: limits})
    )
    show(policy.set_key_limits(key_id, changed))
