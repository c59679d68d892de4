"""Errors of commands: one line, and exit code 1."""

import click
import pytest

from mlxctl.cli.error_reports import report_errors
from tests.permissions import restricted_directory


def test_path_below_a_closed_directory_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with restricted_directory() as directory:
        path = directory / "closed" / "model\x1b[2J"
        path.parent.mkdir(mode=0)
        with pytest.raises(click.exceptions.Exit), report_errors():
            path.stat()
    shown = capsys.readouterr().err
    assert shown == f"mlxctl: cannot use '{path.parent}/model\\x1b[2J': Permission denied\n"


def test_error_without_a_path_is_one_of_the_program() -> None:
    with pytest.raises(PermissionError), report_errors():
        raise PermissionError("not about a file")
