"""Every help page: summary, example and defaults."""

from typing import Any

import pytest
import typer
from syrupy.assertion import SnapshotAssertion
from typer.core import TyperGroup
from typer.testing import CliRunner

from mlxctl.cli import app
from mlxctl.cli.completion.tree import read_tree
from tests.snapshot_location import TextSnapshots

PATHS = [pytest.param(command.path, id=f"mlxctl {command.path}".strip()) for command in read_tree()]
runner = CliRunner()


def page(path: str, columns: int = 80) -> str:
    """Return the help page at this terminal width."""
    return runner.invoke(app, [*path.split(), "--help"], terminal_width=columns).output


def parameters(path: str) -> list[Any]:
    """Return the optional options of a command that take a value."""
    command: Any = typer.main.get_command(app)
    for name in path.split():
        assert isinstance(command, TyperGroup)
        command = command.get_command(typer.Context(command), name)
    return [found for found in command.params if found.param_type_name == "option" and not found.is_flag]


@pytest.mark.parametrize("path", PATHS)
def test_help_page_has_summary_and_example_of_its_command(path: str) -> None:
    words = " ".join(page(path).split())
    assert words.startswith(f"Usage: mlxctl {path}".strip())
    examples = words.rpartition("Example")[2]
    assert f"mlxctl {path}".strip() in examples


@pytest.mark.parametrize("path", PATHS)
def test_help_page_shows_every_default(path: str) -> None:
    text = " ".join(page(path, columns=200).split())
    for parameter in parameters(path):
        if parameter.default not in (None, "", []):
            entry = text.partition(f" {parameter.opts[0]} ")[2]
            assert "[default: " in entry.partition(" --")[0], parameter.opts[0]


@pytest.mark.parametrize("path", PATHS)
def test_every_option_has_a_help_text(path: str) -> None:
    assert [parameter.opts for parameter in parameters(path) if not parameter.help] == []


@pytest.mark.parametrize("path", PATHS)
def test_help_page_fits_80_columns(path: str, snapshot: SnapshotAssertion) -> None:
    assert max(map(len, page(path).splitlines())) <= 80
    assert page(path) == snapshot(extension_class=TextSnapshots)
