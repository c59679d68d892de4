"""What `mlxctl models ls` prints for people."""

from collections.abc import Collection, Sequence

from rich.text import Text

from mlxctl.cli.console import console
from mlxctl.cli.models.tables import WIDE, library_table
from mlxctl.models import Fit, Library, ModelDescription


def print_listing(
    rows: Sequence[tuple[ModelDescription, Fit | None]], library: Library, probed: Collection[str]
) -> None:
    """Print usable models as a table, then aliases, then what cannot be used and why. `probed` are names."""
    out = console(width=WIDE)
    usable = [(model, fit) for model, fit in rows if model.problem is None]
    if usable:
        out.print(library_table(usable, probed))
    else:
        out.print("No models here yet. Download one with: mlxctl models pull ORGANIZATION/NAME")
    for alias, target in library.aliases.items():
        out.print(Text(f"{alias} stands for {target}"))
    broken = [model for model, _ in rows if model.problem is not None]
    if broken:
        out.print("\nCannot be used:", style="bold")
    for model in broken:
        out.print(Text(f"  {model.problem}"), soft_wrap=True)
