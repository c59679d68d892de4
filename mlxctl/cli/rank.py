"""`mlxctl rank`: this machine as one of several for a model."""

import json
import os
import time
from pathlib import Path
from typing import Annotated

import click

from mlxctl.cli.commands import command
from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.options import ConfigFile
from mlxctl.cli.parameters import Argument, Option
from mlxctl.cli.served_directories import find_directory, open_library
from mlxctl.ir.errors import UsageError
from mlxctl.state.rank_hosts import CANNOT_LISTEN, RankHosts, group_token
from mlxctl.terminal_text import echo

# Between the end of a group and the next one.
_PAUSE_SECONDS = 0.5


@command("rank", epilog="Example: mlxctl rank 1 ~/models/Qwen3-8B-4bit --hosts hosts.json")
def rank(
    number: Annotated[int, Argument(help="Place of this machine in the hosts file, from 1.", metavar="RANK")],
    models: Annotated[list[str], Argument(help="Models that the group serves.", metavar="MODEL...")],
    hosts: Annotated[Path, Option(help="Hosts file, the same on all machines.", metavar="FILE")],
    config: ConfigFile = None,
) -> None:
    """Compute models together with other machines.

    `mlxctl serve --hosts` runs on the first machine of the hosts file, this command on each other one. It
    waits for the first machine, and again when the group has ended.
    """
    with report_errors():
        group = RankHosts.read(hosts)
        if not 1 <= number < len(group.ranks):
            last = len(group.ranks) - 1
            raise UsageError(f"RANK: expected 1 to {last}, the other hosts of {str(hosts)!r}, got {number}")
        token = group_token(os.environ)
        library = open_library(config)
        named = [find_directory(name, library) for name in models]
        _serve_groups(number, group, token, {each.name: str(each.path) for each in named})


def _serve_groups(number: int, group: RankHosts, token: str, models: dict[str, str]) -> None:
    """Run a process for each group, one after the other. Raises UsageError."""
    # PERF: help does not need it.
    from mlxctl.engine.client.child_process import start_child
    from mlxctl.engine.client.rank_launcher import follower_command
    from mlxctl.state.rank_hosts import TOKEN_VARIABLE

    address = group.ranks[number][0]
    follower = follower_command(number, group, "text", json.dumps(models))
    while True:
        echo(f"rank {number} waits for rank 0 at {address}", err=True)
        process = start_child(follower, environment=os.environ | {TOKEN_VARIABLE: token})
        try:
            status = process.wait()
        except KeyboardInterrupt:
            process.kill()
            process.wait()
            raise click.exceptions.Exit(0) from None
        if status == CANNOT_LISTEN:
            raise UsageError(f"host {number}: this machine cannot listen at {address}; see the line above")
        time.sleep(_PAUSE_SECONDS)
