"""What the doctor found, line by line as it is found."""

from collections.abc import Iterable

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mlxctl.cli.console import console
from mlxctl.doctor import CheckResult

_MARKS = {"ok": ("✓", "green"), "advice": ("!", "yellow"), "broken": ("✗", "bold red")}
_NAME_COLUMNS = 12


def print_examination(results: Iterable[CheckResult]) -> list[CheckResult]:
    """Print each finding when it comes, then the sum; returns them all."""
    out = console()
    seen = []
    for result in results:
        if out.is_terminal:
            out.print(finding_line(result))
            if result.remedy is not None:
                style = "dim" if result.verdict == "ok" else ""
                out.print(Padding(Text(result.remedy, style=style), (0, 0, 0, _NAME_COLUMNS + 2)))
        else:
            # A pipe has no width: every finding is one line.
            remedy = f"; {result.remedy}" if result.remedy is not None else ""
            line = f"{_MARKS[result.verdict][0]} {result.name:<{_NAME_COLUMNS - 1}} {result.facts}{remedy}"
            out.print(Text(line), soft_wrap=True)
        seen.append(result)
    out.print()
    out.print(summary(seen))
    return seen


def finding_line(result: CheckResult) -> Table:
    """Return mark, name and facts; long facts stay in their column."""
    mark, style = _MARKS[result.verdict]
    table = Table.grid(padding=(0, 1))
    table.add_column(width=1)
    table.add_column(width=_NAME_COLUMNS - 1)
    table.add_column(overflow="fold")
    table.add_row(Text(mark, style=style), Text(result.name, style="bold"), Text(result.facts))
    return table


def summary(results: list[CheckResult]) -> Text:
    """Say it in one line."""
    broken = [result.name for result in results if result.verdict == "broken"]
    if broken:
        return Text(f"broken: {', '.join(broken)}", style="bold red")
    num_advices = sum(result.verdict == "advice" for result in results)
    advice = f"; advice on {num_advices} thing{'s' * (num_advices > 1)}" if num_advices else ""
    return Text(f"everything works{advice}", style="green")
