"""Every help page: what the command is for, an example, and what holds when an option is not given."""

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
    """The help page as a terminal of this width shows it."""
    return runner.invoke(app, [*path.split(), "--help"], terminal_width=columns).output


def parameters(path: str) -> list[Any]:
    """The options of a command that take a value and may be left out."""
    command: Any = typer.main.get_command(app)
    for name in path.split():
        assert isinstance(command, TyperGroup)
        command = command.get_command(typer.Context(command), name)
    return [found for found in command.params if found.param_type_name == "option" and not found.is_flag]


@pytest.mark.parametrize("path", PATHS)
def test_every_page_has_a_purpose_and_an_example_of_this_very_command(path: str) -> None:
    words = " ".join(page(path).split())
    assert words.startswith(f"Usage: mlxctl {path}".strip())
    examples = words.rpartition("Example")[2]
    assert f"mlxctl {path}".strip() in examples


@pytest.mark.parametrize("path", PATHS)
def test_every_default_is_on_the_page(path: str) -> None:
    text = " ".join(page(path, columns=200).split())
    for parameter in parameters(path):
        if parameter.default not in (None, "", []):
            entry = text.partition(f" {parameter.opts[0]} ")[2]
            assert "[default: " in entry.partition(" --")[0], parameter.opts[0]


@pytest.mark.parametrize("path", PATHS)
def test_every_option_says_what_it_is(path: str) -> None:
    assert [parameter.opts for parameter in parameters(path) if not parameter.help] == []


@pytest.mark.parametrize("path", PATHS)
def test_a_page_fits_a_terminal_of_eighty_columns(path: str, snapshot: SnapshotAssertion) -> None:
    assert max(map(len, page(path).splitlines())) <= 80
    assert page(path) == snapshot(extension_class=TextSnapshots)
