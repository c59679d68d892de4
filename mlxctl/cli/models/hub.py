"""`mlxctl models pull`, `search` and `recommend`: models of the hub."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from mlxctl.cli.commands import command
from mlxctl.cli.error_reports import INTERRUPTED, report_errors
from mlxctl.cli.models.downloads import download
from mlxctl.cli.options import AsJson, ConfigFile, print_json, read_settings
from mlxctl.cli.parameters import Argument, Option
from mlxctl.cli.served_directories import open_library
from mlxctl.ir.errors import describe_bytes
from mlxctl.terminal_text import echo, escape_line

if TYPE_CHECKING:
    from mlxctl.cli.probe.results import ProbeResults
    from mlxctl.library import Machine
    from mlxctl.library.download_journal import Download
    from mlxctl.library.recommendations import Recommendation
    from mlxctl.state.settings import Settings

# Longest time for one answer.
_PROBE_SECONDS = 600.0


@command(epilog="Example: mlxctl models pull mlx-community/Qwen3-8B-4bit")
def pull(
    repository: Annotated[
        str,
        Argument(
            metavar="REPO",
            offers="short names",
            help="ORGANIZATION/NAME on the hub, the address of its page, or a short name such as qwen3:4b.",
        ),
    ],
    probe: Annotated[bool, Option("--probe", help="Probe the model afterwards.")] = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Download a model from the Hugging Face hub.

    Complete files are not downloaded again. HF_TOKEN gives access to gated and private repositories,
    HF_ENDPOINT names another hub, HF_HUB_CACHE or HF_HOME another directory.
    """
    with report_errors():
        from mlxctl.library.short_names import full_name

        library = open_library(config)
        done = download(full_name(repository), library.hub_cache, is_quiet=as_json)
        if not as_json:
            echo(_summary(done, is_probed=probe))
        results = _probe(done.repository, config, is_quiet=as_json) if probe else None
        if as_json:
            _print_view(done, results)
        if results is not None:
            raise click.exceptions.Exit(_report(results, as_json=as_json))


def _summary(done: "Download", *, is_probed: bool) -> str:
    """Return a line about the download.

    It ends with the next commands, or why the model cannot be used.
    """
    from mlxctl.library import describe_model

    line = (
        f"downloaded {done.repository} ({describe_bytes(done.num_bytes)})"
        if done.num_bytes
        else f"{done.repository} was downloaded before"
    )
    assert done.path is not None, "it is done"
    model = describe_model(done.path, name=done.repository)
    if model.problem:
        return f"{line}, but it cannot be used: {model.problem}"
    line = f"{line}. Try: mlxctl serve {done.repository}"
    is_text = model.detection.kind in ("text", "vision")
    probe = f"To test tools, thinking and JSON output once: mlxctl probe {done.repository}"
    return f"{line}\n{probe}" if is_text and not is_probed else line


def _probe(repository: str, config: Path | None, *, is_quiet: bool) -> "ProbeResults":
    from mlxctl.cli.probe.results import ProbeOptions, probe_models

    options = ProbeOptions(
        force=False, timeout_seconds=_PROBE_SECONDS, trust_remote_code=False, is_quiet=is_quiet
    )
    return probe_models([repository], read_settings(config), options)


def _print_view(done: "Download", results: "ProbeResults | None") -> None:
    import msgspec

    from mlxctl.library.views import DownloadView

    view = {**msgspec.to_builtins(DownloadView.of(done)), "path": str(done.path) if done.path else None}
    if results is not None:
        problem = _problem(results)
        state = "cancelled" if results.was_stopped else "failed" if problem else "done"
        view |= {"probe": state, "probe_error": problem}
    print_json(view)


def _problem(results: "ProbeResults") -> str | None:
    return next((model.problem for model in results.models if model.problem is not None), None)


def _report(results: "ProbeResults", *, as_json: bool) -> int:
    """Print the probe's results and return the exit code.

    As `mlxctl probe` does; beside JSON only problems.
    """
    if not as_json:
        from mlxctl.cli.probe.report import report

        return report(results, as_json=False, toml=None, with_evidence=False)
    if problem := _problem(results):
        echo(f"mlxctl: {problem}", err=True)
    return INTERRUPTED if results.was_stopped else int(problem is not None)


@command(epilog="Example: mlxctl models search qwen3 coder")
def search(
    words: Annotated[list[str], Argument(metavar="WORD...", help="Words of the repository's name.")],
    limit: Annotated[int, Option(min=1, max=100, help="Largest number of results.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Search the Hugging Face hub for MLX models.

    The most downloaded come first.
    """
    with report_errors():
        from mlxctl.library.hub_search import search_hub

        found = search_hub(" ".join(words), limit=limit)
    if as_json:
        print_json([model._asdict() for model in found])
        return
    if not found:
        echo("no model found")
        raise click.exceptions.Exit(1)
    from rich.table import Table

    from mlxctl.cli.console import console, print_names

    table = Table("model", "task", box=None, pad_edge=False, header_style="bold")
    table.add_column("downloads", justify="right")
    table.add_column("updated")
    for model in found:
        table.add_row(
            escape_line(model.repository),
            escape_line(model.task or "–"),
            f"{model.downloads:,}",
            escape_line(model.updated_at or "–"),
        )
    out = console()
    print_names(out, table)
    out.print("Download and try one: mlxctl run MODEL")


_CONTEXT_TOKENS, _CPU_CONTEXT_TOKENS = 32_768, 8192


@command(epilog="Example: mlxctl models recommend --context 65536")
def recommend(
    context: Annotated[
        int | None,
        Option(
            "--context",
            min=1,
            metavar="TOKENS",
            help="Length of a conversation that must fit.  [default: 32768, without a GPU 8192]",
        ),
    ] = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Suggest models that fit this machine.

    Lists models of the hub, the largest first. Sizes are estimates from published figures, and the speed is
    an upper bound from memory bandwidth. The project has not run these weights itself; after a download,
    check it with `mlxctl models fit` and `mlxctl probe`.
    """
    with report_errors():
        settings = read_settings(config)
        from mlxctl.library import this_machine
        from mlxctl.library.fit import SLOW_LARGE, SLOW_QUANTIZED
        from mlxctl.library.recommendations import recommend as find

        machine = this_machine(memory_limit_bytes=settings.engine.memory_limit_bytes)
        if context is None:
            context = _CPU_CONTEXT_TOKENS if machine.computes_on_cpu else _CONTEXT_TOKENS
        found = [_with_speed(model, machine, settings) for model in find(machine, context_tokens=context)]
    if as_json:
        import msgspec

        print_json(msgspec.to_builtins(found))
        return
    if not found:
        echo(
            f"No model of the catalog fits {describe_bytes(machine.usable_bytes)} with {context:,} tokens; "
            "try a shorter --context"
        )
        return
    from rich.table import Table

    from mlxctl.cli.console import console, print_names

    table = Table("model", "for", box=None, pad_edge=False, header_style="bold")
    for heading in ("needs", "context up to", "tokens/s"):
        table.add_column(heading, justify="right", no_wrap=True)
    for model in found:
        speed, measured = model.max_tokens_per_second, model.measured_tokens_per_second
        table.add_row(
            model.repository,
            model.purpose,
            describe_bytes(model.needed_bytes),
            "–" if model.max_context_tokens is None else f"{model.max_context_tokens:,}",
            "–" if model.max_context_tokens is None else _describe_speed(speed, measured),
        )
    out = console()
    print_names(out, table)
    out.print(
        f"needs = weights, KV cache of a conversation of {context:,} tokens (--context), and prefill memory, "
        "all estimated.\nThe project has not run these weights. Try: mlxctl run MODEL"
    )
    if machine.computes_on_cpu:
        out.print(f"MLX computes on the CPU here: {SLOW_QUANTIZED}, and {SLOW_LARGE}.")


def _describe_speed(most: float | None, measured: float | None) -> str:
    if measured is not None:
        return f"{measured:.1f} measured"
    return "unknown" if most is None else f"≤ {most:.0f}"


def _with_speed(model: "Recommendation", machine: "Machine", settings: "Settings") -> "Recommendation":
    """Return the recommendation with the measured speed of a downloaded model."""
    import msgspec

    from mlxctl.ir.errors import ModelError
    from mlxctl.library import Library
    from mlxctl.library.measured_speeds import MeasuredSpeeds

    try:
        path = Library(settings.library).find_named(model.repository).path
    except ModelError:
        return model
    speeds = MeasuredSpeeds()
    speed = speeds.of(path, machine)
    speeds.close()
    if speed is None:
        return model
    return msgspec.structs.replace(model, measured_tokens_per_second=speed.decode_tokens_per_second)
