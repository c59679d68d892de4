"""Report of stored results as Markdown with SVG images."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlxctl.bench.formatting import (
    ceiling_line,
    client_line,
    format_value,
    machine_line,
    ratio_verdict,
    server_line,
    state_line,
)
from mlxctl.bench.result import Result
from mlxctl.bench.scenarios import Chart
from mlxctl.bench.svg import Bar, draw_bars
from mlxctl.ir.errors import SettingsError

PAGE = "report.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchReport:
    """The page, and its images by file name."""

    markdown: str
    images: dict[str, str]

    def save(self, directory: Path) -> Path:
        """Write page and images; return the page's path. Raises SettingsError."""
        try:
            directory.mkdir(parents=True, exist_ok=True)
            for name, image in self.images.items():
                (directory / name).write_text(image, encoding="utf-8")
            (directory / PAGE).write_text(self.markdown, encoding="utf-8")
        except OSError as error:
            raise SettingsError(
                f"the report cannot be written to {str(directory)!r}: {error.strerror}"
            ) from None
        return directory / PAGE


def make_report(results: Sequence[tuple[str, Result]]) -> BenchReport:
    """Return the report of results, each with its file name."""
    images: dict[str, str] = {}
    parts = ["# What was measured\n"]
    for number, (name, result) in enumerate(results, start=1):
        parts += _section(f"{number}-{result.scenario}", name, result, images)
    return BenchReport(markdown="\n".join(parts), images=images)


def _section(prefix: str, name: str, result: Result, images: dict[str, str]) -> Iterator[str]:
    yield f"## {result.scenario}\n"
    state = state_line(result)
    yield f"{'**' + state + '**' if result.is_partial else state}, begun {result.started} ({_code(name)}).\n"
    for server in result.servers:
        facts = server_line(server)
        yield f"- {server.label}: {_code(server.model)}, {_code(server.name)}" + (
            f" ({_plain(facts)})" if facts else ""
        )
    yield f"- {_plain(machine_line(result))}\n"
    yield from _pair_table(result) if result.ratios else _figure_table(result)
    for number, chart in enumerate(result.charts, start=1):
        if bars := _bars(result, chart):
            file = f"{prefix}-{number}.svg"
            images[file] = draw_bars(chart.title, bars)
            yield f"![{chart.title}]({file})\n"
    for line in filter(None, (ceiling_line(result), client_line(result.client), *result.notes)):
        yield f"- {_plain(line)}"
    yield ""


def _figure_table(result: Result) -> Iterator[str]:
    yield "| figure | median | lowest | highest | what it is |\n| --- | ---: | ---: | ---: | --- |"
    for found in result.measurements:
        if not found.is_detail:
            values = " | ".join(
                format_value(value, found.unit) for value in (found.median, found.lowest, found.highest)
            )
            yield f"| {_code(found.name)} | {values} | {_plain(found.meaning)} |"
    yield ""


def _pair_table(result: Result) -> Iterator[str]:
    yield "| figure | A | B | A/B | spread | | what it is |\n| --- | ---: | ---: | ---: | ---: | --- | --- |"
    for pair in result.ratios:
        a, b, ratio = result.find(pair.name), result.find(pair.name, "B"), pair.ratio
        if a is None or b is None or a.is_detail:
            continue
        verdict = ratio_verdict(ratio, a.better, is_noise=pair.is_noise)
        medians = f"{format_value(a.median, a.unit)} | {format_value(b.median, b.unit)}"
        ratios = f"{ratio.median:.2f} | {ratio.lowest:.2f}–{ratio.highest:.2f}"
        yield f"| {_code(a.name)} | {medians} | {ratios} | {verdict} | {_plain(a.meaning)} |"
    yield ""


def _bars(result: Result, chart: Chart) -> list[Bar]:
    has_two = len(result.servers) > 1
    return [
        Bar(
            label=f"{label} {server.label}" if has_two else label,
            series=server.label,
            value=found.median,
            lowest=found.lowest,
            highest=found.highest,
            text=format_value(found.median, found.unit),
        )
        for label, name in chart.bars
        for server in result.servers
        if (found := result.find(name, server.label))
    ]


def _code(text: str) -> str:
    """Return untrusted text as inline code without Markdown effects."""
    return f"`{' '.join(text.replace('`', ' ').split())}`"


def _plain(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())
