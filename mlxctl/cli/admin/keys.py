"""`mlxctl admin keys`."""

import time
from typing import Annotated, Any, Literal

import typer

from mlxctl.cli.admin.target import Local, policy_target, show
from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import SuggestingGroup, create_app
from mlxctl.cli.options import ApiKey, AsJson, ConfigFile, ServerUrl

_SECONDS_A_DAY = 86_400

KeyId = Annotated[str, typer.Argument(metavar="KEY_ID", help="Id of a key, as `ls` lists it.")]
Scopes = Annotated[
    list[str] | None,
    typer.Option("--scope", metavar="SCOPE", help="What the key allows; repeat it for several."),
]
Models = Annotated[
    list[str] | None,
    typer.Option("--allow-model", metavar="GLOB", help="Model that the key may use; repeat it for several."),
]
Priority = Annotated[
    int | None, typer.Option(help="Most urgent priority of its requests; lower is served first.")
]
CacheGroup = Annotated[
    str | None, typer.Option(metavar="GROUP", help="Keys of one group share cached prefixes.")
]
Days = Annotated[
    float | None, typer.Option("--expires-days", metavar="DAYS", help="Time until the key expires.")
]

app = create_app(cls=SuggestingGroup, no_args_is_help=True, epilog="Example: mlxctl admin keys ls")
app.callback(help="List, add, change, rotate and revoke API keys.")(lambda: None)


@app.command(epilog="Example: mlxctl admin keys ls --local")
def ls(
    as_json: AsJson = False,
    local: Local = False,
    url: ServerUrl = None,
    api_key: ApiKey = None,
    config: ConfigFile = None,
) -> None:
    """List API keys, without their secrets."""
    with report_errors(), policy_target(url=url, api_key=api_key, local=local, config=config) as policy:
        keys = policy.keys()
    if as_json:
        show(keys)
        return
    from mlxctl.cli.console import console
    from mlxctl.inspector.served_policy import keys_table

    console().print(keys_table(keys))


@app.command(epilog="Example: mlxctl admin keys add ci --scope generate --allow-model 'qwen*'")
def add(
    name: Annotated[str, typer.Argument(metavar="KEY_NAME", help="Name of the key, for people.")],
    scopes: Scopes = None,
    models: Models = None,
    priority: Priority = None,
    cache_group: CacheGroup = None,
    expires_days: Days = None,
    as_json: AsJson = False,
    local: Local = False,
    url: ServerUrl = None,
    api_key: ApiKey = None,
    config: ConfigFile = None,
) -> None:
    """Create an API key and print its secret.

    The secret is shown only now. Without --scope it may generate, embed, transcribe and list models. Once a
    key exists, the server requires keys; give the first one the scope `admin`.
    """
    fields = {
        "name": name,
        **_given(scopes=scopes, models=models, priority=priority, cache_group=cache_group),
        **_expiry(expires_days),
    }
    with report_errors():
        from mlxctl.policy.admin import NewKey

        new = _body(fields, NewKey)
        with policy_target(url=url, api_key=api_key, local=local, config=config) as policy:
            key = policy.add(new)
    if as_json:
        show(key)
    else:
        typer.echo(f"{key.id}: {key.name}\n{key.key}")


@app.command("show", epilog="Example: mlxctl admin keys show key_0123456789abcdef")
def show_key(
    key_id: KeyId,
    local: Local = False,
    url: ServerUrl = None,
    api_key: ApiKey = None,
    config: ConfigFile = None,
) -> None:
    """Show one API key as JSON, without its secret."""
    with report_errors(), policy_target(url=url, api_key=api_key, local=local, config=config) as policy:
        key = policy.key(key_id)
    show(key)


@app.command("set", epilog="Example: mlxctl admin keys set key_0123456789abcdef --scope metrics:read")
def set_key(
    key_id: KeyId,
    name: Annotated[str | None, typer.Option(metavar="KEY_NAME", help="Name of the key.")] = None,
    scopes: Scopes = None,
    models: Models = None,
    priority: Priority = None,
    cache_group: CacheGroup = None,
    expires_days: Days = None,
    local: Local = False,
    url: ServerUrl = None,
    api_key: ApiKey = None,
    config: ConfigFile = None,
) -> None:
    """Change an API key; what is not given stays."""
    fields = {
        **_given(name=name, scopes=scopes, models=models, priority=priority, cache_group=cache_group),
        **_expiry(expires_days),
    }
    with report_errors():
        from mlxctl.policy.admin import KeyChange

        change = _body(fields, KeyChange)
        with policy_target(url=url, api_key=api_key, local=local, config=config) as policy:
            key = policy.change(key_id, change)
    show(key)


def _change_command(action: Literal["rotate", "revoke"], *, help: str) -> None:  # noqa: A002 -- Typer's name
    """Add the command of a change that needs no value."""

    @app.command(action, help=help, epilog=f"Example: mlxctl admin keys {action} key_0123456789abcdef")
    def change(
        key_id: KeyId,
        as_json: AsJson = False,
        local: Local = False,
        url: ServerUrl = None,
        api_key: ApiKey = None,
        config: ConfigFile = None,
    ) -> None:
        with report_errors(), policy_target(url=url, api_key=api_key, local=local, config=config) as policy:
            key = policy.rotate(key_id) if action == "rotate" else policy.revoke(key_id)
        if as_json:
            show(key)
        else:
            typer.echo(f"{key.id}: {key.name}\n{key.key}" if key.key else f"{key.id}: revoked")


_change_command("rotate", help="Replace the secret of an API key at once.")
_change_command("revoke", help="Refuse an API key from now on; its open requests end.")


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, [])}


def _expiry(days: float | None) -> dict[str, float]:
    return {} if days is None else {"expires": time.time() + days * _SECONDS_A_DAY}


def _body(fields: dict[str, Any], kind: Any) -> Any:
    import msgspec

    from mlxctl.errors import SettingsError

    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise SettingsError(str(error)) from None
