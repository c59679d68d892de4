"""Every help page: summary, example and defaults."""

from collections.abc import Iterator
from typing import Any

import click
import pytest
from click.testing import CliRunner
from syrupy.assertion import SnapshotAssertion

from mlxctl.cli import app
from tests.snapshot_location import TextSnapshots

runner = CliRunner()


def every_path(command: click.Command = app, path: str = "") -> Iterator[str]:
    """Yield the words after `mlxctl` of all groups and commands."""
    yield path
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            child = command.get_command(click.Context(command), name)
            assert child is not None
            yield from every_path(child, f"{path} {name}".strip())


PATHS = [pytest.param(path, id=f"mlxctl {path}".strip()) for path in every_path()]


def page(path: str, columns: int = 80) -> str:
    """Return the help page at this terminal width."""
    return runner.invoke(app, [*path.split(), "--help"], terminal_width=columns).output


def parameters(path: str) -> list[Any]:
    """Return the options of a command that take a value."""
    command: Any = app
    for name in path.split():
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), name)
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
        if not parameter.required and parameter.default not in (None, "", []):
            entry = text.partition(f" {parameter.opts[0]} ")[2]
            assert "[default: " in entry.partition(" --")[0], parameter.opts[0]


@pytest.mark.parametrize("path", PATHS)
def test_every_option_has_a_help_text(path: str) -> None:
    assert [parameter.opts for parameter in parameters(path) if not parameter.help] == []


@pytest.mark.parametrize("path", PATHS)
def test_help_page_fits_80_columns(path: str, snapshot: SnapshotAssertion) -> None:
    assert max(map(len, page(path).splitlines())) <= 80
    assert page(path) == snapshot(extension_class=TextSnapshots)
