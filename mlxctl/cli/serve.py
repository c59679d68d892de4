"""`mlxctl serve`. Its flags override settings."""

import inspect
import logging
import os
import re
import shlex
import types
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin, get_type_hints

import click

from mlxctl.cli.commands import command
from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.options import ConfigFile, describe_setting, read_settings
from mlxctl.cli.parameters import Argument, Option
from mlxctl.ir.errors import UsageError
from mlxctl.state.settings import (
    AdapterSettings,
    AuditSettings,
    EngineSettings,
    ModelSettings,
    PolicySettings,
    PoolSettings,
    RoutingSettings,
    SamplingSettings,
    SchedulerSettings,
    ServerSettings,
    Settings,
    VisionSettings,
    describe_field,
    section_types,
    settings_file,
)
from mlxctl.state.settings.secret_files import exposed_files
from mlxctl.terminal_text import echo

if TYPE_CHECKING:
    from mlxctl.state.log_format import LogFormat


# PERF: reading them anew for each of 66 flags took 10 ms.
_type_hints = cache(get_type_hints)


@dataclass(frozen=True, slots=True)
class SettingFlag:
    """A flag that overrides the setting `section.field`; `flag` may have several spellings."""

    section: type
    field: str
    flag: str
    metavar: str | None = None

    def parameter(self, heading: str) -> inspect.Parameter:
        """Return the parameter of the command, named like the setting.

        `heading` is what it is listed under on the help page.
        """
        option = Option(
            *self.flag.split(),
            help=re.sub(r"`(\w+_\w+)`", _as_flag, describe_setting(self.section, self.field)),
            metavar=self.metavar,
            heading=heading,
            show_default=False,
        )
        kind: Any = self._type()
        annotation: Any = Annotated[kind | None, option]
        return inspect.Parameter(
            self.field, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=annotation
        )

    def _type(self) -> Any:
        """Return the type of the flag's value.

        Other values stay text until settings are resolved.
        """
        kind = _type_hints(self.section)[self.field]
        if get_origin(kind) in (Union, types.UnionType):
            kind = next(choice for choice in get_args(kind) if choice is not type(None))
        if get_origin(kind) in (tuple, dict):
            return list[str]
        has_unit = self.field.endswith("_bytes")
        return kind if kind in (bool, int, float, Path) and not has_unit else str


_GROUPS: Mapping[str, tuple[SettingFlag, ...]] = {
    "Models": (
        SettingFlag(PoolSettings, "dirs", "--models-dir", "DIR"),
        SettingFlag(PoolSettings, "allow_library", "--any-library-model"),
        SettingFlag(PoolSettings, "any_model_name", "--any-model-name/--no-any-model-name"),
        SettingFlag(PoolSettings, "preload", "--preload"),
        SettingFlag(PoolSettings, "max_models", "--max-models", "NUMBER"),
        SettingFlag(PoolSettings, "pins", "--pin", "NAME"),
        SettingFlag(PoolSettings, "ttl_seconds", "--model-ttl", "SECONDS"),
        SettingFlag(ModelSettings, "name", "--name", "NAME"),
        SettingFlag(AdapterSettings, "paths", "--adapter", "NAME=PATH"),
        SettingFlag(ModelSettings, "trust_remote_code", "--trust-remote-code"),
        SettingFlag(ModelSettings, "probe_unknown", "--probe-unknown"),
    ),
    "Network": (
        SettingFlag(ServerSettings, "host", "--host", "HOST"),
        SettingFlag(ServerSettings, "port", "--port -p", "PORT"),
        SettingFlag(ServerSettings, "root_path", "--root-path", "PATH"),
        SettingFlag(ServerSettings, "cors_origins", "--cors-origin", "ORIGIN"),
        SettingFlag(ServerSettings, "allowed_hosts", "--allowed-host", "NAME"),
        SettingFlag(ServerSettings, "tls_cert", "--tls-cert", "FILE"),
        SettingFlag(ServerSettings, "tls_key", "--tls-key", "FILE"),
        SettingFlag(ServerSettings, "tls_key_password_file", "--tls-key-password-file", "FILE"),
        SettingFlag(ServerSettings, "tls_min_version", "--tls-min-version", "VERSION"),
        SettingFlag(ServerSettings, "tls_client_ca", "--tls-client-ca", "FILE"),
        SettingFlag(VisionSettings, "fetch_urls", "--fetch-images"),
        SettingFlag(VisionSettings, "fetch_hosts", "--fetch-host", "HOST"),
        SettingFlag(RoutingSettings, "cloud", "--cloud/--no-cloud"),
        SettingFlag(ServerSettings, "max_queue", "--max-queue", "NUMBER"),
        SettingFlag(ServerSettings, "timeouts", "--timeout", "ENDPOINT=SECONDS"),
        SettingFlag(ServerSettings, "strip_agent_headers", "--strip-agent-headers/--keep-agent-headers"),
        SettingFlag(ServerSettings, "status_page", "--status-page/--no-status-page"),
    ),
    "Keys": (
        SettingFlag(ServerSettings, "api_keys", "--api-key", "KEY"),
        SettingFlag(ServerSettings, "api_key_file", "--api-key-file", "FILE"),
        SettingFlag(ServerSettings, "admin_keys", "--admin-key", "KEY"),
        SettingFlag(ServerSettings, "cache_groups", "--cache-group", "GROUP=KEY"),
        SettingFlag(PolicySettings, "passphrase_file", "--passphrase-file", "FILE"),
    ),
    "Memory and cache": (
        SettingFlag(EngineSettings, "memory_limit_bytes", "--memory-limit", "SIZE"),
        SettingFlag(ModelSettings, "kv_bits", "--kv-bits", "BITS"),
        SettingFlag(ModelSettings, "kv_group_size", "--kv-group-size", "NUMBER"),
        SettingFlag(EngineSettings, "prefix_cache_bytes", "--prefix-cache", "SIZE"),
        SettingFlag(EngineSettings, "prefix_cache_bits", "--prefix-cache-bits", "BITS"),
        SettingFlag(EngineSettings, "cache_ttl_seconds", "--cache-ttl", "SECONDS"),
        SettingFlag(EngineSettings, "cache_dir", "--cache-dir", "DIRECTORY"),
        SettingFlag(EngineSettings, "cache_disk_bytes", "--cache-disk-bytes", "SIZE"),
    ),
    "Speed": (
        SettingFlag(EngineSettings, "max_rows", "--max-rows", "NUMBER"),
        SettingFlag(EngineSettings, "speculation", "--speculation", "DRAFTER"),
        SettingFlag(ModelSettings, "draft", "--draft", "MODEL"),
        SettingFlag(EngineSettings, "target_gap_ms", "--target-gap-ms", "MS"),
        SettingFlag(EngineSettings, "target_ttft_ms", "--target-ttft-ms", "MS"),
        SettingFlag(SchedulerSettings, "enable_preemption", "--enable-preemption"),
        SettingFlag(SchedulerSettings, "max_timeslice_tokens", "--max-timeslice-tokens", "NUMBER"),
    ),
    "Several machines": (
        SettingFlag(EngineSettings, "ranks", "--ranks", "NUMBER"),
        SettingFlag(EngineSettings, "hosts", "--hosts", "FILE"),
        SettingFlag(EngineSettings, "parallel", "--parallel", "SPLIT"),
    ),
    "Sampling": (
        SettingFlag(SamplingSettings, "thinking", "--thinking", "MODE"),
        SettingFlag(SamplingSettings, "temperature", "--temperature", "NUMBER"),
        SettingFlag(SamplingSettings, "top_p", "--top-p", "NUMBER"),
        SettingFlag(SamplingSettings, "top_k", "--top-k", "NUMBER"),
        SettingFlag(SamplingSettings, "min_p", "--min-p", "NUMBER"),
        SettingFlag(SamplingSettings, "repetition_penalty", "--repetition-penalty", "NUMBER"),
        SettingFlag(SamplingSettings, "fallback", "--fallback-sampling/--no-fallback-sampling"),
        SettingFlag(SamplingSettings, "max_tokens", "--max-tokens", "NUMBER"),
        SettingFlag(SamplingSettings, "seed", "--seed", "NUMBER"),
        SettingFlag(SamplingSettings, "hlg", "--hlg/--no-hlg"),
        SettingFlag(SamplingSettings, "hlg_width", "--hlg-width", "NATS"),
        SettingFlag(SamplingSettings, "hlg_shoulder", "--hlg-shoulder", "NATS"),
        SettingFlag(SamplingSettings, "hlg_toe", "--hlg-toe", "NATS"),
        SettingFlag(SamplingSettings, "hlg_pivot_offset", "--hlg-pivot-offset", "NATS"),
    ),
    "Logging": (
        SettingFlag(ServerSettings, "log_level", "--log-level", "LEVEL"),
        SettingFlag(ServerSettings, "log_format", "--log-format", "FORMAT"),
        SettingFlag(ServerSettings, "log_content", "--log-content"),
        SettingFlag(AuditSettings, "enabled", "--audit"),
        SettingFlag(AuditSettings, "debug", "--audit-debug"),
    ),
}
"""The flags by their headings on the help page."""
_FLAGS = tuple(flag for flags in _GROUPS.values() for flag in flags)
_FLAG_NAMES = {flag.field: re.split("[ /]", flag.flag)[0] for flag in _FLAGS} | {
    "path": "MODEL",
    "models": "MODEL",
}


def _as_flag(quoted: re.Match[str]) -> str:
    """Return the flag of a setting, else its name."""
    return f"`{_FLAG_NAMES.get(quoted[1], quoted[1])}`"


_MODEL_HELP = f"{describe_field(ModelSettings, 'path')} {describe_field(PoolSettings, 'models')}"


def run_server(
    models: Annotated[list[str] | None, Argument(help=_MODEL_HELP, metavar="MODEL")] = None,
    more_models: Annotated[
        list[str] | None, Option("--model", "-m", help="Same as MODEL.", metavar="MODEL")
    ] = None,
    config: ConfigFile = None,
    **flags: Any,
) -> None:
    """Serve models over OpenAI- and Anthropic-compatible APIs."""
    with report_errors():
        settings = resolve_options([*(models or ()), *(more_models or ())], config, flags)
        _offer_downloads(settings)
    log_format = settings.server.log_format
    if flags.get("api_keys") or flags.get("admin_keys"):
        note = (
            "other users of this machine can see keys of the command line with `ps`; "
            "better use --api-key-file or the settings file"
        )
        echo(_log_line(note, log_format, logging.WARNING), err=True)
    for file in exposed_files(settings, config or settings_file(os.environ)):
        note = f"other users can read the keys in {str(file)!r}; fix: chmod 600 {shlex.quote(str(file))}"
        echo(_log_line(note, log_format, logging.WARNING), err=True)
    with report_errors(partial(_log_line, log_format=log_format, level=logging.ERROR)):
        from mlxctl.cli.banner import Banner, StartLog
        from mlxctl.server import run

        raise click.exceptions.Exit(run(settings, StartLog() if log_format == "json" else Banner()))


def _offer_downloads(settings: Settings) -> None:
    from mlxctl.cli.models.downloads import offer_downloads
    from mlxctl.library import Library

    named = (settings.model.path, *settings.pool.models, settings.model.draft)
    offer_downloads([str(path) for path in named if path is not None], Library(settings.library))


def _log_line(message: str, log_format: "LogFormat", level: int) -> str:
    # PERF: it imports msgspec, which help and a TAB do not need.
    from mlxctl.state.log_format import json_line

    return json_line(message, logger=__name__, level=level) if log_format == "json" else f"mlxctl: {message}"


def resolve_options(models: list[str], config: Path | None, flags: Mapping[str, Any]) -> Settings:
    """Return the settings with these models and options. Raises UsageError."""
    if repeated := [name for name in models if models.count(name) > 1]:
        raise UsageError(f"model {repeated[0]!r} is given twice")
    values = {**flags, "path": next(iter(models), None), "models": models[1:]}
    return read_settings(config, _by_section(values), _FLAG_NAMES)


def _by_section(values: Mapping[str, object]) -> dict[str, dict[str, object]]:
    """Return the values by section of settings.

    Each is named like its setting.
    """
    owners = {flag.field: flag.section for flag in _FLAGS} | {"path": ModelSettings, "models": PoolSettings}
    return {
        section: {key: value for key, value in values.items() if owners[key] is kind}
        for section, kind in section_types().items()
    }


_models, _more_models, _config, _ = inspect.signature(run_server).parameters.values()
_flags = (flag.parameter(heading) for heading, flags in _GROUPS.items() for flag in flags)
run_server.__signature__ = inspect.Signature([_models, _more_models, *_flags, _config])  # type: ignore[attr-defined]
serve = command("serve", epilog="Example: mlxctl serve ~/models/Qwen3-8B-4bit --port 8000")(run_server)
