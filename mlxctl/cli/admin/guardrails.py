"""`mlxctl admin guardrails`."""

from pathlib import Path
from typing import Annotated

import typer

from mlxctl.cli.admin.target import show, with_policy
from mlxctl.cli.inspector.served_policy import PolicyTarget
from mlxctl.cli.lazy import create_app

app = create_app(no_args_is_help=True, epilog="Example: mlxctl admin guardrails show")
app.callback(help="Show, set and try guardrails.")(lambda: None)


@app.command("show", epilog="Example: mlxctl admin guardrails show --local")
@with_policy
def show_rules(policy: PolicyTarget) -> None:
    """Show the guardrails as JSON."""
    show(policy.guardrails())


@app.command("set", epilog="Example: mlxctl admin guardrails set rules.json")
@with_policy
def set_rules(
    policy: PolicyTarget,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Rules as JSON, as `show` prints them.")],
) -> None:
    """Replace the guardrails, from the next request on."""
    import msgspec

    from mlxctl.ir.errors import SettingsError
    from mlxctl.ir.policy import GuardrailRules

    try:
        rules = msgspec.json.decode(file.read_bytes(), type=GuardrailRules)
    except (OSError, msgspec.MsgspecError) as error:
        raise SettingsError(f"rules {str(file)!r} cannot be read: {error}") from None
    show(policy.set_guardrails(rules))


@app.command("test", epilog="Example: mlxctl admin guardrails test 'my number is 555-12'")
@with_policy
def try_rules(
    policy: PolicyTarget,
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="Text to try the guardrails with.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--request", metavar="FILE", help="A request as JSON instead; it is not run."),
    ] = None,
) -> None:
    """Show what the guardrails do to a text or a request."""
    from mlxctl.cli.inspector.request_file import read_request
    from mlxctl.cli.inspector.served_policy import ServedPolicy, screen_request
    from mlxctl.ir.errors import UsageError

    if text is not None and file is None:
        show(policy.test_guardrails(text))
    elif file is None or text is not None:
        raise UsageError("name either a TEXT or --request FILE")
    elif isinstance(policy, ServedPolicy):
        show(policy.test_request(read_request(file)))
    else:
        show(screen_request(policy.guardrails(), read_request(file)))
