"""Runs ranks as child processes. Front side; no MLX.

To its caller the group is one engine: rank 0, which alone talks to the front.
"""

import contextlib
import os
import secrets
import socket
import sys

from mlxctl.engine.client.child_process import ChildProcess, describe_exit
from mlxctl.engine.client.launcher import EngineProcess
from mlxctl.state.log_format import LogFormat
from mlxctl.state.rank_hosts import TOKEN_VARIABLE, RankHosts
from mlxctl.state.settings import EngineSettings

# Ranks end as soon as rank 0 has ended.
_END_SECONDS = 2.0


class EngineRanks:
    """The engine as several processes of this machine, or as rank 0.

    The number is that of the settings; with `hosts` this machine has rank 0 of these. The others are started
    there, by `mlxctl rank`.
    """

    def __init__(
        self,
        settings: EngineSettings,
        *,
        hosts: RankHosts | None = None,
        token: str = "",
        log_format: LogFormat = "text",
    ) -> None:
        """`token` is the secret of `hosts`.

        A group of this machine has a new one each time.
        """
        self._num_ranks, self._hosts, self._token = settings.ranks, hosts, token
        self._log_format = log_format
        self._rank_0 = EngineProcess(settings, log_format=log_format)
        self._others: dict[int, ChildProcess] = {}

    async def launch(self) -> socket.socket:
        """Start all processes and wait until rank 0 has connected."""
        hosts = self._hosts or RankHosts.local(_free_ports(self._num_ranks))
        environment = os.environ | {TOKEN_VARIABLE: self._token or secrets.token_hex()}
        if self._hosts is None:
            for rank in range(1, self._num_ranks):
                self._others[rank] = ChildProcess(
                    follower_command(rank, hosts, self._log_format), environment=environment
                )
        return await self._rank_0.launch_rank_0(hosts.to_json(), environment)

    async def end(self, *, grace_seconds: float) -> str | None:
        """Wait for rank 0 as for one engine, then for the others.

        No process is left when this returns.
        """
        how = [await self._rank_0.end(grace_seconds=grace_seconds)]
        for rank, process in list(self._others.items()):
            if not await process.ends_within(_END_SECONDS if grace_seconds else 0):
                process.kill()
            status = await process.wait()
            # Another call may have ended it, and the next group may have started.
            if self._others.get(rank) is process:
                del self._others[rank]
            if status:
                how.append(f"rank {rank} (process {process.pid}): {describe_exit(status)}")
        return "; ".join(each for each in how if each) or None


def follower_command(rank: int, hosts: RankHosts, log_format: LogFormat, models: str = "null") -> list[str]:
    """Return the command of another rank; `models` as in `engine.follower_process`."""
    module = "mlxctl.engine.follower_process"
    return [sys.executable, "-m", module, str(rank), hosts.to_json(), log_format, models]


def _free_ports(number: int) -> list[int]:
    """Return free ports of the loopback interface."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)]
        return [each.getsockname()[1] for each in sockets]
