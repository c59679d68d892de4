"""The command line: parse, resolve settings, call a package, render.

Runs in the process of the command. Each group of commands is one module, imported when it is called; heavy
packages are imported in function bodies.
"""

from typing import Any

import click

from mlxctl.cli.commands import LazyCommand, LazyGroup
from mlxctl.cli.error_reports import INTERRUPTED
from mlxctl.terminal_text import echo

COMMANDS = {
    "serve": LazyCommand(
        "mlxctl.cli.serve:serve", "Serve models over OpenAI- and Anthropic-compatible APIs."
    ),
    "rank": LazyCommand("mlxctl.cli.rank:rank", "Compute models together with other machines."),
    "chat": LazyCommand("mlxctl.cli.chat:chat", "Chat with a model in the terminal."),
    "run": LazyCommand("mlxctl.cli.run:run", "Answer one prompt, or chat; downloads the model if needed."),
    "speak": LazyCommand("mlxctl.cli.speak:speak", "Read a text aloud, or write it to an audio file."),
    "transcribe": LazyCommand(
        "mlxctl.cli.transcribe:transcribe", "Transcribe audio files to text or subtitles."
    ),
    "launch": LazyCommand(
        "mlxctl.cli.launch.commands:launch", "Start a coding agent with a model of this machine."
    ),
    "service": LazyCommand(
        "mlxctl.cli.service.commands:app", "Run the server in the background, from login on."
    ),
    "logs": LazyCommand(
        "mlxctl.cli.service.commands:root_logs", "Print the log of the server in the background."
    ),
    "top": LazyCommand(
        "mlxctl.cli.top:top", "Monitor a running server: speed, queue, batch, cache, requests."
    ),
    "cancel": LazyCommand("mlxctl.cli.cancel:cancel", "Cancel a request of a running server."),
    "models": LazyCommand(
        "mlxctl.cli.models:app",
        "Manage models: find, download, inspect, fit; load and unload in a running server.",
    ),
    "probe": LazyCommand(
        "mlxctl.cli.probe:probe", "Test what models can do by generating, and store the results."
    ),
    "cache": LazyCommand(
        "mlxctl.cli.cache:app", "Inspect and manage the prefix cache: list, explain misses, pin, clear."
    ),
    "agents": LazyCommand(
        "mlxctl.cli.agents:app", "Manage the agents of a running server: list, show, reset, delete."
    ),
    "adapters": LazyCommand("mlxctl.cli.adapters:app", "LoRA adapters of a running server."),
    "admin": LazyCommand("mlxctl.cli.admin:app", "Manage API keys, rate limits and guardrails."),
    "audit": LazyCommand("mlxctl.cli.audit:app", "Show, search and prune the audit log of this machine."),
    "scheduler": LazyCommand("mlxctl.cli.scheduler:app", "The scheduler's settings of a running server."),
    "bench": LazyCommand("mlxctl.cli.bench:app", "Benchmark a server, or two servers side by side."),
    "config": LazyCommand(
        "mlxctl.cli.config:app", "Create the settings file, and show the settings in effect."
    ),
    "doctor": LazyCommand("mlxctl.cli.doctor.commands:doctor", "Check this installation, and suggest fixes."),
    "completion": LazyCommand("mlxctl.cli.completion:app", "Print a shell completion script."),
}


class RootGroup(LazyGroup):
    """`mlxctl`, which also takes `mlxctl help COMMAND` and `mlxctl version`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        match args:
            case ["help", *names]:
                args = [*names, "--help"]
            case ["version"]:
                args = ["--version"]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)


def _print_version(ctx: click.Context, parameter: click.Parameter, is_wanted: bool) -> None:  # noqa: ARG001
    if is_wanted and not ctx.resilient_parsing:
        echo(describe_versions())
        ctx.exit()


def describe_versions() -> str:
    """Return two lines: mlxctl and Python, then the packages that affect generation.

    Imports none of these packages.
    """
    import platform

    from mlxctl import __version__
    from mlxctl.state.installed import version_of

    required = ("mlx", "mlx-lm", "tokenizers", "transformers")
    optional = ("mlx-metal", "mlx-cpu", "llguidance", "mlx-vlm", "mlx-embeddings", "mlx-audio")
    found = [f"{package} {version_of(package) or 'missing'}" for package in required]
    found += [f"{package} {version}" for package in optional if (version := version_of(package))]
    return f"mlxctl {__version__} (Python {platform.python_version()})\n{', '.join(found)}"


@click.pass_context
def _show_overview(ctx: click.Context) -> None:
    """Show the overview where no command is called."""
    if ctx.invoked_subcommand is None:
        from mlxctl.cli.overview import print_overview

        print_overview()


app = RootGroup(
    "mlxctl",
    COMMANDS,
    callback=_show_overview,
    invoke_without_command=True,
    params=[
        click.Option(
            ["--version", "-v", "-V"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_version,
            help="Print versions and exit.",
        )
    ],
    help="Serve, probe, chat with and measure MLX models.",
    epilog="Example: mlxctl serve ~/models/Qwen3-8B-4bit",
)
