"""`mlxctl admin keys`."""

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mlxctl.cli.admin.target import show, with_policy
from mlxctl.cli.inspector.served_policy import PolicyTarget
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import AsJson
from mlxctl.terminal_text import echo, escape_line

if TYPE_CHECKING:
    from mlxctl.server.policy.admin import KeyView

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

app = create_app(no_args_is_help=True, epilog="Example: mlxctl admin keys ls")
app.callback(help="List, add, change, rotate and revoke API keys.")(lambda: None)


@app.command(epilog="Example: mlxctl admin keys ls --local")
@with_policy
def ls(policy: PolicyTarget, as_json: AsJson = False) -> None:
    """List API keys, without their secrets."""
    keys = policy.keys()
    if as_json:
        show(keys)
        return
    from mlxctl.cli.console import console
    from mlxctl.cli.inspector.served_policy import keys_table

    console().print(keys_table(keys))


@app.command(epilog="Example: mlxctl admin keys add ci --scope generate --allow-model 'qwen*'")
@with_policy
def add(
    policy: PolicyTarget,
    name: Annotated[str, typer.Argument(metavar="KEY_NAME", help="Name of the key, for people.")],
    scopes: Scopes = None,
    models: Models = None,
    priority: Priority = None,
    cache_group: CacheGroup = None,
    expires_days: Days = None,
    as_json: AsJson = False,
) -> None:
    """Create an API key and print its secret.

    The secret is shown only now. Without --scope it may generate, embed, transcribe and list models. Once a
    key exists, the server requires keys; give the first one the scope `admin`.
    """
    from mlxctl.server.policy.admin import NewKey

    fields = {
        "name": name,
        **_given(scopes=scopes, models=models, priority=priority, cache_group=cache_group),
        **_expiry(expires_days),
    }
    _show_secret(policy.add(_body(fields, NewKey)), as_json=as_json)


@app.command("show", epilog="Example: mlxctl admin keys show key_0123456789abcdef")
@with_policy
def show_key(policy: PolicyTarget, key_id: KeyId) -> None:
    """Show one API key as JSON, without its secret."""
    show(policy.key(key_id))


@app.command("set", epilog="Example: mlxctl admin keys set key_0123456789abcdef --scope metrics:read")
@with_policy
def set_key(
    policy: PolicyTarget,
    key_id: KeyId,
    name: Annotated[str | None, typer.Option(metavar="KEY_NAME", help="Name of the key.")] = None,
    scopes: Scopes = None,
    models: Models = None,
    priority: Priority = None,
    cache_group: CacheGroup = None,
    expires_days: Days = None,
) -> None:
    """Change an API key; options that are not given keep their values."""
    from mlxctl.server.policy.admin import KeyChange

    fields = {
        **_given(name=name, scopes=scopes, models=models, priority=priority, cache_group=cache_group),
        **_expiry(expires_days),
    }
    show(policy.change(key_id, _body(fields, KeyChange)))


@app.command(epilog="Example: mlxctl admin keys rotate key_0123456789abcdef")
@with_policy
def rotate(policy: PolicyTarget, key_id: KeyId, as_json: AsJson = False) -> None:
    """Replace the secret of an API key at once."""
    _show_secret(policy.rotate(key_id), as_json=as_json)


@app.command(epilog="Example: mlxctl admin keys revoke key_0123456789abcdef")
@with_policy
def revoke(policy: PolicyTarget, key_id: KeyId, as_json: AsJson = False) -> None:
    """Refuse an API key from now on; its open requests end."""
    key = policy.revoke(key_id)
    if as_json:
        show(key)
    else:
        echo(escape_line(f"{key.id}: revoked"))


def _show_secret(key: "KeyView", *, as_json: bool) -> None:
    if as_json:
        show(key)
    else:
        echo("\n".join(map(escape_line, (f"{key.id}: {key.name}", str(key.key)))))


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, [])}


def _expiry(days: float | None) -> dict[str, float]:
    return {} if days is None else {"expires": time.time() + days * _SECONDS_A_DAY}


def _body(fields: dict[str, Any], kind: Any) -> Any:
    import msgspec

    from mlxctl.ir.errors import UsageError

    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise UsageError(str(error)) from None
