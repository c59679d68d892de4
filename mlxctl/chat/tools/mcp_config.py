"""The file of MCP servers: the `mcpServers` JSON of other clients."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from mlxctl.ir.errors import SettingsError
from mlxctl.state.locations import expand_user

MAX_SERVERS = 32
_MAX_FILE_BYTES = 1_000_000
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_HTTP_TYPES = ("http", "streamable-http", "streamableHttp")


class McpServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One server: a `command` that is started, or a `url`.

    Other fields that clients write are ignored. `env` adds to a few harmless variables of this process; the
    others, which may hold keys, are not passed on.
    """

    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = {}
    type: str | None = None
    disabled: bool = False


class _File(msgspec.Struct, frozen=True, kw_only=True):
    servers: Mapping[str, McpServerConfig] = msgspec.field(name="mcpServers")


def read_mcp_config(path: Path, environment: Mapping[str, str] = os.environ) -> dict[str, McpServerConfig]:
    """Return the enabled servers by name.

    `${NAME}` in arguments, URL, env and headers stands for a variable of `environment`. Raises SettingsError.
    """
    try:
        with expand_user(path).open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise SettingsError(f"the MCP file {str(path)!r} cannot be read: {error.strerror}") from None
    if len(data) > _MAX_FILE_BYTES:
        raise SettingsError(f"the MCP file {str(path)!r} has more than {_MAX_FILE_BYTES // 1_000_000} MB")
    try:
        servers = msgspec.json.decode(data, type=_File).servers
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise SettingsError(
            f"the MCP file {str(path)!r} is not "
            f'like {{"mcpServers": {{"NAME": {{"command": ...}}}}}}: {error}'
        ) from None
    enabled = {name: config for name, config in servers.items() if not config.disabled}
    if len(enabled) > MAX_SERVERS:
        raise SettingsError(f"the MCP file {str(path)!r} has more than {MAX_SERVERS} servers")
    return {name: _checked(name, config, environment) for name, config in enabled.items()}


def _checked(name: str, config: McpServerConfig, environment: Mapping[str, str]) -> McpServerConfig:
    """Return the configuration with its variables. Raises SettingsError."""
    if (config.command is None) == (config.url is None):
        raise SettingsError(f"MCP server {name!r} needs either `command` or `url`")
    expected = ("stdio",) if config.url is None else _HTTP_TYPES
    if config.type is not None and config.type not in expected:
        raise SettingsError(
            f"MCP server {name!r} has the type {config.type!r}; "
            "`stdio` with a command and `http` with a url are supported"
        )

    def expand(text: str) -> str:
        return _VARIABLE.sub(lambda match: _variable(match[1], name, environment), text)

    url = None if config.url is None else expand(config.url)
    if url is not None and not url.startswith(("http://", "https://")):
        raise SettingsError(f"MCP server {name!r}: {config.url!r} is not an http or https URL")
    return msgspec.structs.replace(
        config,
        args=tuple(map(expand, config.args)),
        env={key: expand(value) for key, value in config.env.items()},
        url=url,
        headers={key: expand(value) for key, value in config.headers.items()},
    )


def _variable(variable: str, server: str, environment: Mapping[str, str]) -> str:
    if variable not in environment:
        raise SettingsError(f"MCP server {server!r} uses ${{{variable}}}, which is not set")
    return environment[variable]
