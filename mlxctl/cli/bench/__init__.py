"""`mlxctl bench`: measure servers, compare results, report them. One file per command, imported when it is called."""

from typing import ClassVar

import typer

from mlxctl.cli.lazy import LazyCommand, LazyGroup


class BenchGroup(LazyGroup):
    """The table of measurements."""

    table: ClassVar[dict[str, LazyCommand]] = {
        "throughput": LazyCommand("mlxctl.cli.bench.throughput", "Tokens per second: one stream, many streams, a long prompt."),
        "latency": LazyCommand("mlxctl.cli.bench.latency", "How long one person waits: first token, next token, whole answer."),
        "prefix": LazyCommand("mlxctl.cli.bench.prefix", "What a known beginning saves: cold, warm, after a restart."),
        "agents": LazyCommand(
            "mlxctl.cli.bench.agents", "Coding agents: one session turn by turn, then several at once on a cold prefix."
        ),
        "arrivals": LazyCommand("mlxctl.cli.bench.arrivals", "Requests at random times, and the share served well."),
        "burst": LazyCommand("mlxctl.cli.bench.burst", "Many new prompts at once: fresh, and after one stream alone."),
        "contention": LazyCommand(
            "mlxctl.cli.bench.contention", "A short request, and a decoding stream, while a long prompt is read."
        ),
        "mixed": LazyCommand("mlxctl.cli.bench.mixed", "Traffic of all lengths from several clients at once."),
        "probe": LazyCommand("mlxctl.cli.bench.probe", "How long `mlxctl probe` takes for a model, phase by phase."),
        "compare": LazyCommand("mlxctl.cli.bench.compare", "Compare two stored results, and fail when a figure got worse."),
        "report": LazyCommand("mlxctl.cli.bench.report", "Render stored results as Markdown with SVG charts."),
    }


app = typer.Typer(
    cls=BenchGroup,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
    epilog="Example: mlxctl bench latency --model mlx-community/Qwen3-8B-4bit --against http://127.0.0.1:8000",
)


@app.callback()
def bench() -> None:
    """Measure the speed of a server, or of two side by side."""
