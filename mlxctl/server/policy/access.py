"""Who can reach a server, and with what right."""

from mlxctl.ir.errors import SettingsError
from mlxctl.ir.host_names import is_loopback
from mlxctl.server.policy import PolicyService
from mlxctl.state.settings import ServerSettings

_ADD_KEY = "`mlxctl admin keys add NAME --scope admin --local` adds one"


def describe_access(settings: ServerSettings, *, requires_keys: bool) -> str:
    """Return who may use a server with these settings."""
    if is_loopback(settings.host):
        who = "programs of this machine"
    else:
        who = f"every machine that reaches {settings.host}"
    if requires_keys:
        return f"{who} with an API key"
    pages = ""
    if settings.cors_origins:
        what = "generate and list models" if "*" in settings.cors_origins else "do so from listed origins"
        pages = f"; web pages may {what}"
    advice = "" if is_loopback(settings.host) else "; set an API key with --api-key"
    return f"{who} may use and change everything without a key{pages}{advice}"


def check_keys(settings: ServerSettings, policy: PolicyService) -> None:
    """Raise SettingsError where a server would be open that must not be."""
    if policy.requires_keys:
        return
    if settings.require_keys:
        raise SettingsError(f"server.require_keys: there is no API key; {_ADD_KEY}, or set server.api_keys")
    if settings.require_keys is None and policy.store is not None and policy.store.had_keys:
        raise SettingsError(
            f"the API keys are lost: {str(policy.store.path)!r} has none; restore it from a backup, or "
            f"{_ADD_KEY}; MLXCTL_SERVER_REQUIRE_KEYS=false starts without keys"
        )
