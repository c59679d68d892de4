"""Everything that proves an answer, printed to the letter: what the model was given, what it said, and who
could read it.
"""

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from mlxctl.cli.models.tables import plain
from mlxctl.cli.probe.answers import Answer
from mlxctl.cli.probe.tables import summary, verdict
from mlxctl.stores import QUESTIONS, Exchange, Finding


def print_evidence(out: Console, answer: Answer) -> None:
    """Print all that is known of one model."""
    out.print(summary(answer), style="bold")
    if answer.known.record is not None:
        out.print(plain(f"fingerprint {answer.known.record.fingerprint}"), soft_wrap=True)
    for finding in answer.known.findings:
        out.print()
        _print_finding(out, finding)


def _print_finding(out: Console, finding: Finding) -> None:
    out.print(Text.assemble((QUESTIONS[finding.question], "bold"), ": ", verdict(finding)))
    out.print(Padding(plain(finding.reason), (0, 0, 0, 2)))
    for name, value in finding.value.items():
        out.print(Padding(plain(f"{name}: {value}"), (0, 0, 0, 2)))
    for exchange in finding.exchanges:
        _print_exchange(out, exchange)


def _print_exchange(out: Console, exchange: Exchange) -> None:
    reader = f", read by {exchange.parser_id}" if exchange.parser_id else ""
    out.print("  given", style="dim")
    out.print(_quoted(exchange.prompt), soft_wrap=True)
    out.print(
        Text(f"  said {exchange.num_tokens} tokens in {exchange.duration_seconds:.2f} s{reader}", style="dim")
    )
    out.print(_quoted(exchange.output), soft_wrap=True)


def _quoted(text: str) -> Text:
    return Text("\n").join(Text("    │ ") + plain(line) for line in text.split("\n"))
