"""Who can reach a server, and with what right, in one sentence."""

from mlxctl.ir.host_names import is_loopback
from mlxctl.settings import ServerSettings


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
