"""`mlxctl admin`: API keys, limits and guardrails.

Of a server, or of the policy store of this machine.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mlxctl.cli.commands import group
from mlxctl.cli.options import ApiKey, AsJson, ConfigFile, ServerUrl, open_server, print_json, read_settings
from mlxctl.cli.parameters import Argument, Option, opening
from mlxctl.ir.errors import SettingsError, UsageError
from mlxctl.terminal_text import echo, escape_line

if TYPE_CHECKING:
    from mlxctl.cli.inspector.served_policy import ServedPolicy
    from mlxctl.server.policy.admin import KeyView, PolicyAdmin

    PolicyTarget = PolicyAdmin | ServedPolicy

_SECONDS_A_DAY = 86_400

Local = Annotated[bool, Option("--local", help="Use the policy store of this machine, without a server.")]
KeyId = Annotated[str, Argument(metavar="KEY_ID", help="Id of a key, as `ls` lists it.")]
Scopes = Annotated[
    list[str] | None,
    Option("--scope", metavar="SCOPE", help="What the key allows; repeat it for several."),
]
Models = Annotated[
    list[str] | None,
    Option("--allow-model", metavar="GLOB", help="Model that the key may use; repeat it for several."),
]
Priority = Annotated[int | None, Option(help="Most urgent priority of its requests; lower is served first.")]
CacheGroup = Annotated[str | None, Option(metavar="GROUP", help="Keys of one group share cached prefixes.")]
Days = Annotated[float | None, Option("--expires-days", metavar="DAYS", help="Time until the key expires.")]
LimitedKey = Annotated[
    str | None,
    Option("--key", metavar="KEY_ID", help="Key.  [default: the default limits of all keys]"),
]

app = group("admin", example="mlxctl admin keys ls")
keys = group("keys", help="List, add, change, rotate and revoke API keys.", example="mlxctl admin keys ls")
limits = group("limits", help="Show and set rate limits.", example="mlxctl admin limits show")
guardrails = group("guardrails", help="Show, set and try guardrails.", example="mlxctl admin guardrails show")
for _group in (keys, limits, guardrails):
    app.add_command(_group)


@contextmanager
def open_policy(
    local: Local = False, url: ServerUrl = None, api_key: ApiKey = None, config: ConfigFile = None
) -> "Iterator[PolicyTarget]":
    """Yield the store. Raises SettingsError, ServerUnreachable, AuthenticationFailed."""
    if local:
        from mlxctl.server.policy.admin import PolicyAdmin
        from mlxctl.server.wiring import policy

        yield PolicyAdmin(*policy.open_policy(read_settings(config)))
        return
    from mlxctl.cli.inspector.served_policy import ServedPolicy

    with open_server(url, api_key) as server:
        yield ServedPolicy(server)


with_policy = opening(open_policy)


@keys.command(epilog="Example: mlxctl admin keys ls --local")
@with_policy
def ls(policy: "PolicyTarget", as_json: AsJson = False) -> None:
    """List API keys, without their secrets."""
    found = policy.keys()
    if as_json:
        _show(found)
        return
    from mlxctl.cli.console import console
    from mlxctl.cli.inspector.served_policy import keys_table

    console().print(keys_table(found))


@keys.command(epilog="Example: mlxctl admin keys add ci --scope generate --allow-model 'qwen*'")
@with_policy
def add(
    policy: "PolicyTarget",
    name: Annotated[str, Argument(metavar="KEY_NAME", help="Name of the key, for people.")],
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


@keys.command("show", epilog="Example: mlxctl admin keys show key_0123456789abcdef")
@with_policy
def show_key(policy: "PolicyTarget", key_id: KeyId) -> None:
    """Show one API key as JSON, without its secret."""
    _show(policy.key(key_id))


@keys.command("set", epilog="Example: mlxctl admin keys set key_0123456789abcdef --scope metrics:read")
@with_policy
def set_key(
    policy: "PolicyTarget",
    key_id: KeyId,
    name: Annotated[str | None, Option(metavar="KEY_NAME", help="Name of the key.")] = None,
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
    _show(policy.change(key_id, _body(fields, KeyChange)))


@keys.command(epilog="Example: mlxctl admin keys rotate key_0123456789abcdef")
@with_policy
def rotate(policy: "PolicyTarget", key_id: KeyId, as_json: AsJson = False) -> None:
    """Replace the secret of an API key at once."""
    _show_secret(policy.rotate(key_id), as_json=as_json)


@keys.command(epilog="Example: mlxctl admin keys revoke key_0123456789abcdef")
@with_policy
def revoke(policy: "PolicyTarget", key_id: KeyId, as_json: AsJson = False) -> None:
    """Refuse an API key from now on; its open requests end."""
    key = policy.revoke(key_id)
    if as_json:
        _show(key)
    else:
        echo(escape_line(f"{key.id}: revoked"))


def _show_secret(key: "KeyView", *, as_json: bool) -> None:
    if as_json:
        _show(key)
    else:
        echo("\n".join(map(escape_line, (f"{key.id}: {key.name}", str(key.key)))))


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, [])}


def _expiry(days: float | None) -> dict[str, float]:
    return {} if days is None else {"expires": time.time() + days * _SECONDS_A_DAY}


def _body(fields: dict[str, Any], kind: Any) -> Any:
    import msgspec

    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise UsageError(str(error)) from None


@limits.command("show", epilog="Example: mlxctl admin limits show --key key_0123456789abcdef")
@with_policy
def show_limits(policy: "PolicyTarget", key_id: LimitedKey = None) -> None:
    """Show limits as JSON."""
    _show(policy.limits() if key_id is None else policy.key_limits(key_id))


@limits.command("set", epilog="Example: mlxctl admin limits set --requests 60 --tokens 100000 --concurrent 4")
@with_policy
def set_limits(
    policy: "PolicyTarget",
    key_id: LimitedKey = None,
    model: Annotated[
        str | None, Option("--for-model", metavar="GLOB", help="Limits for these models, with --key.")
    ] = None,
    requests: Annotated[int | None, Option(min=0, help="Requests per minute; 0 is no limit.")] = None,
    tokens: Annotated[int | None, Option(min=0, help="Tokens per minute; 0 is no limit.")] = None,
    concurrent: Annotated[int | None, Option(min=0, help="Open requests; 0 is no limit.")] = None,
    burst: Annotated[int | None, Option(min=0, help="Requests per second; 0 is no limit.")] = None,
) -> None:
    """Replace limits, from the next request on.

    A limit that is not given is taken from the defaults.
    """
    from mlxctl.ir.policy import KeyLimits, Limits

    if model is not None and key_id is None:
        raise UsageError("--for-model needs --key")
    new = Limits(requests_per_minute=requests, tokens_per_minute=tokens, concurrent=concurrent, burst=burst)
    if key_id is None:
        _show(policy.set_limits(new))
        return
    own = policy.key_limits(key_id)
    changed = (
        KeyLimits(all_models=new, models=own.models)
        if model is None
        else KeyLimits(all_models=own.all_models, models={**own.models, model: new})
    )
    _show(policy.set_key_limits(key_id, changed))


@guardrails.command("show", epilog="Example: mlxctl admin guardrails show --local")
@with_policy
def show_rules(policy: "PolicyTarget") -> None:
    """Show the guardrails as JSON."""
    _show(policy.guardrails())


@guardrails.command("set", epilog="Example: mlxctl admin guardrails set rules.json")
@with_policy
def set_rules(
    policy: "PolicyTarget",
    file: Annotated[Path, Argument(metavar="FILE", help="Rules as JSON, as `show` prints them.")],
) -> None:
    """Replace the guardrails, from the next request on."""
    import msgspec

    from mlxctl.ir.policy import GuardrailRules

    try:
        rules = msgspec.json.decode(file.read_bytes(), type=GuardrailRules)
    except (OSError, msgspec.MsgspecError) as error:
        raise SettingsError(f"rules {str(file)!r} cannot be read: {error}") from None
    _show(policy.set_guardrails(rules))


@guardrails.command("test", epilog="Example: mlxctl admin guardrails test 'my number is 555-12'")
@with_policy
def try_rules(
    policy: "PolicyTarget",
    text: Annotated[str | None, Argument(metavar="[TEXT]", help="Text to try the guardrails with.")] = None,
    file: Annotated[
        Path | None,
        Option("--request", metavar="FILE", help="A request as JSON instead; it is not run."),
    ] = None,
) -> None:
    """Show what the guardrails do to a text or a request."""
    from mlxctl.cli.inspector.request_file import read_request
    from mlxctl.cli.inspector.served_policy import ServedPolicy, screen_request

    if text is not None and file is None:
        _show(policy.test_guardrails(text))
    elif file is None or text is not None:
        raise UsageError("name either a TEXT or --request FILE")
    elif isinstance(policy, ServedPolicy):
        _show(policy.test_request(read_request(file)))
    else:
        _show(screen_request(policy.guardrails(), read_request(file)))


def _show(value: Any) -> None:
    """Print a Struct as JSON."""
    import msgspec

    print_json(msgspec.to_builtins(value))
