"""`mlxctl serve`. Parameters are named like the settings that they stand for."""

import os
from pathlib import Path
from typing import Annotated

import typer

from mlxctl.cli.failures import plain_failures
from mlxctl.cli.options import flags_by_section, setting
from mlxctl.settings import (
    EngineSettings,
    ModelSettings,
    PoolSettings,
    SamplingSettings,
    ServerSettings,
    describe_field,
    resolve,
)

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
Text = str | None
Texts = list[str] | None
_MODEL_HELP = f"{describe_field(ModelSettings, 'path')} {describe_field(PoolSettings, 'models')}"


@app.command(epilog="Example: mlxctl serve --model ~/models/Qwen3-8B-4bit --port 8000")
def serve(
    models: Annotated[Texts, typer.Option("--model", "-m", help=_MODEL_HELP, metavar="MODEL")] = None,
    dirs: Annotated[Texts, setting(PoolSettings, "dirs", "--models-dir", metavar="DIR")] = None,
    allow_library: Annotated[
        bool | None, setting(PoolSettings, "allow_library", "--any-library-model")
    ] = None,
    preload: Annotated[bool | None, setting(PoolSettings, "preload", "--preload")] = None,
    max_models: Annotated[
        int | None, setting(PoolSettings, "max_models", "--max-models", metavar="NUMBER")
    ] = None,
    pins: Annotated[Texts, setting(PoolSettings, "pins", "--pin", metavar="NAME")] = None,
    ttl_seconds: Annotated[
        float | None, setting(PoolSettings, "ttl_seconds", "--model-ttl", metavar="SECONDS")
    ] = None,
    name: Annotated[Text, setting(ModelSettings, "name", "--name", metavar="NAME")] = None,
    trust_remote_code: Annotated[
        bool | None, setting(ModelSettings, "trust_remote_code", "--trust-remote-code")
    ] = None,
    kv_bits: Annotated[Text, setting(ModelSettings, "kv_bits", "--kv-bits", metavar="BITS")] = None,
    kv_group_size: Annotated[
        Text, setting(ModelSettings, "kv_group_size", "--kv-group-size", metavar="NUMBER")
    ] = None,
    host: Annotated[Text, setting(ServerSettings, "host", "--host", metavar="HOST")] = None,
    port: Annotated[int | None, setting(ServerSettings, "port", "--port", "-p", metavar="PORT")] = None,
    api_keys: Annotated[Texts, setting(ServerSettings, "api_keys", "--api-key", metavar="KEY")] = None,
    admin_keys: Annotated[Texts, setting(ServerSettings, "admin_keys", "--admin-key", metavar="KEY")] = None,
    cache_groups: Annotated[
        Texts, setting(ServerSettings, "cache_groups", "--cache-group", metavar="GROUP=KEY")
    ] = None,
    cors_origins: Annotated[
        Texts, setting(ServerSettings, "cors_origins", "--cors-origin", metavar="ORIGIN")
    ] = None,
    allowed_hosts: Annotated[
        Texts, setting(ServerSettings, "allowed_hosts", "--allowed-host", metavar="NAME")
    ] = None,
    max_queue: Annotated[
        int | None, setting(ServerSettings, "max_queue", "--max-queue", metavar="NUMBER")
    ] = None,
    log_level: Annotated[Text, setting(ServerSettings, "log_level", "--log-level", metavar="LEVEL")] = None,
    strip_agent_headers: Annotated[
        bool | None,
        setting(ServerSettings, "strip_agent_headers", "--strip-agent-headers/--keep-agent-headers"),
    ] = None,
    memory_limit_bytes: Annotated[
        Text, setting(EngineSettings, "memory_limit_bytes", "--memory-limit", metavar="SIZE")
    ] = None,
    prefix_cache_bytes: Annotated[
        Text, setting(EngineSettings, "prefix_cache_bytes", "--prefix-cache", metavar="SIZE")
    ] = None,
    prefix_cache_bits: Annotated[
        Text, setting(EngineSettings, "prefix_cache_bits", "--prefix-cache-bits", metavar="BITS")
    ] = None,
    cache_dir: Annotated[
        Path | None, setting(EngineSettings, "cache_dir", "--cache-dir", metavar="DIRECTORY")
    ] = None,
    cache_disk_bytes: Annotated[
        Text, setting(EngineSettings, "cache_disk_bytes", "--cache-disk-bytes", metavar="SIZE")
    ] = None,
    target_gap_ms: Annotated[
        float | None, setting(EngineSettings, "target_gap_ms", "--target-gap-ms", metavar="MS")
    ] = None,
    target_ttft_ms: Annotated[
        float | None, setting(EngineSettings, "target_ttft_ms", "--target-ttft-ms", metavar="MS")
    ] = None,
    hlg: Annotated[bool | None, setting(SamplingSettings, "hlg", "--hlg/--no-hlg")] = None,
    hlg_width: Annotated[
        float | None, setting(SamplingSettings, "hlg_width", "--hlg-width", metavar="NATS")
    ] = None,
    hlg_shoulder: Annotated[
        float | None, setting(SamplingSettings, "hlg_shoulder", "--hlg-shoulder", metavar="NATS")
    ] = None,
    hlg_toe: Annotated[
        float | None, setting(SamplingSettings, "hlg_toe", "--hlg-toe", metavar="NATS")
    ] = None,
    hlg_pivot_offset: Annotated[
        float | None, setting(SamplingSettings, "hlg_pivot_offset", "--hlg-pivot-offset", metavar="NATS")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Settings file to read instead of the default one.", metavar="FILE")
    ] = None,
) -> None:
    """Serve models over OpenAI- and Anthropic-compatible APIs."""
    chosen = models or []
    flags = flags_by_section({**locals(), "path": next(iter(chosen), None), "models": chosen[1:]})
    with plain_failures():
        settings = resolve(config_file=config, environment=os.environ, flags=flags)
        from mlxctl.cli.banner import Banner
        from mlxctl.server import run

        raise typer.Exit(run(settings, Banner()))
