"""The router of a server, from the settings."""

import logging
import re
import secrets

from mlxctl.inference.routing.remote_server import RemoteServer
from mlxctl.inference.routing.router import VIA_HEADER, Router
from mlxctl.inference.routing.rules import LOCAL, Rules
from mlxctl.inference.service import InferenceService
from mlxctl.ir.errors import SettingsError
from mlxctl.ir.host_names import is_local_network, server_root, url_host
from mlxctl.state.settings import RemoteSettings, RouteSettings, Settings
from mlxctl.state.settings.secret_files import secret_of_environment

_MAX_ENTRIES = 64
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")

_log = logging.getLogger(__name__)


def create_router(settings: Settings, inference: InferenceService) -> Router:
    """Return the router; nothing is sent before it is opened. Raises SettingsError."""
    server_id = secrets.token_hex(8)
    _check(settings)
    on: list[RemoteServer] = []
    off: list[RemoteSettings] = []
    for remote in settings.remotes:
        if _is_cloud(remote) and not settings.routing.cloud:
            _log.info("remote %r is off: it is a cloud server, and routing.cloud is false", remote.name)
            off.append(remote)
            continue
        variable = remote.api_key_env
        key = secret_of_environment(variable, f"api_key_env of remote {remote.name!r}") if variable else None
        on.append(RemoteServer(remote, api_key=key, headers={VIA_HEADER: server_id}, log=inference.log))
    names = {server.name for server in on} | {LOCAL}
    rules = Rules(rules=tuple(rule for rule in settings.routes if rule.to in names))
    return Router(inference, server_id=server_id, servers=on, off=off, rules=rules)


def _is_cloud(remote: RemoteSettings) -> bool:
    return remote.cloud or not is_local_network(url_host(server_root(remote.url)))


def _check(settings: Settings) -> None:
    """Raise SettingsError for remotes and routes that cannot work."""
    if max(len(settings.remotes), len(settings.routes)) > _MAX_ENTRIES:
        raise SettingsError(f"[[remotes]] and [[routes]] may have {_MAX_ENTRIES} entries each")
    names = [remote.name for remote in settings.remotes]
    for remote in settings.remotes:
        if not _NAME.fullmatch(remote.name) or remote.name == LOCAL or names.count(remote.name) > 1:
            raise SettingsError(
                f"remote {remote.name!r}: a name has letters, digits, '.', '_' and '-', is not {LOCAL!r}, "
                "and belongs to one remote"
            )
        root = server_root(remote.url)
        if "@" in root.partition("://")[2].partition("/")[0]:
            raise SettingsError(f"remote {remote.name!r}: the URL has a user name; use api_key_env")
        if root.startswith("http://") and not is_local_network(url_host(root)):
            raise SettingsError(
                f"remote {remote.name!r}: prompts and key would cross the internet unencrypted; use https"
            )
    for number, rule in enumerate(settings.routes):
        _check_rule(rule, number, names)


def _check_rule(rule: RouteSettings, number: int, names: list[str]) -> None:
    if rule.to not in (*names, LOCAL):
        known = ", ".join((LOCAL, *names))
        raise SettingsError(f"'routes[{number}].to' is {rule.to!r}; it must be one of {known}")
