"""`mlxctl admin guardrails`."""

from pathlib import Path
from typing import Annotated

import typer

from mlxctl.cli.admin.target import Local, policy_target, show
from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import SuggestingGroup, create_app
from mlxctl.cli.options import ApiKey, ConfigFile, ServerUrl

app = create_app(cls=SuggestingGroup, no_args_is_help=True, epilog="Example: mlxctl admin guardrails show")
app.callback(help="Show, set and try guardrails.")(lambda: None)


@app.command("show", epilog="Example: mlxctl admin guardrails show --local")
def show_rules(
    local: Local = False, url: ServerUrl = None, api_key: ApiKey = None, config: ConfigFile = None
) -> None:
    """Show the guardrails as JSON."""
    with report_errors(), policy_target(url=url, api_key=api_key, local=local, config=config) as policy:
        rules = policy.guardrails()
    show(rules)


@app.command("set", epilog="Example: mlxctl admin guardrails set rules.json")
def set_rules(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Rules as JSON, as `show` prints them.")],
    local: Local = False,
    url: ServerUrl = None,
    api_key: ApiKey = None,
    config: ConfigFile = None,
) -> None:
    """Replace the guardrails, from the next request on."""
    with report_errors():
        import msgspec

        from mlxctl.errors import SettingsError
        from mlxctl.ir.policy import GuardrailRules

        try:
            rules = msgspec.json.decode(file.read_bytes(), type=GuardrailRules)
        except (OSError, msgspec.MsgspecError) as error:
            raise SettingsError(f"rules {str(file)!r} cannot be read: {error}") from None
        with policy_target(url=url, api_key=api_key, local=local, config=config) as policy:
            show(policy.set_guardrails(rules))


@app.command("test", epilog="Example: mlxctl admin guardrails test 'my number is 555-12'")
def try_rules(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Text to try the guardrails with.")],
    local: Local = False,
    url: ServerUrl = None,
    api_key: ApiKey = None,
    config: ConfigFile = None,
) -> None:
    """Show what the guardrails do to a text."""
    with report_errors(), policy_target(url=url, api_key=api_key, local=local, config=config) as policy:
        show(policy.test_guardrails(text))
