"""The workflows use existing commands, options and conditions."""

import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from mlxctl.bench.conditions import Condition
from mlxctl.cli import app

WORKFLOWS = sorted((Path(__file__).parent.parent / ".github" / "workflows").iterdir())
SCRIPTS = [
    step["run"]
    for workflow in WORKFLOWS
    for job in yaml.safe_load(workflow.read_text())["jobs"].values()
    for step in job["steps"]
    if "run" in step
]
COMMANDS = [line for script in SCRIPTS for line in script.splitlines() if re.search(r"/mlxctl\"? ", line)]


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_of_a_workflow_is_valid(line: str) -> None:
    words = shlex.split(re.sub(r"^.*?/mlxctl\"? ", "", line).replace("; }", "").replace('"${@:2}"', ""))
    command: Any = app
    while isinstance(command, click.Group):
        command = command.get_command(None, words.pop(0))
        assert command is not None, line
    command.make_context("mlxctl", words)


def test_every_condition_of_a_workflow_is_valid() -> None:
    texts = re.findall(r'--fail-if "([^"]+)"', "\n".join(SCRIPTS))
    assert len(texts) >= 3
    assert all(Condition.parse(text).is_relative for text in texts)
