"""Hosts files: both formats of MLX, and what is wrong in others."""

import json
from pathlib import Path

import pytest

from mlxctl.ir.errors import UsageError
from mlxctl.state.rank_hosts import FIRST_PORT, RankHosts, group_token

LAUNCH_FORMAT = [{"ssh": "studio", "ips": ["10.0.0.1"]}, {"ssh": "mini", "ips": ["10.0.0.2", "10.0.1.2"]}]
RING_FORMAT = [["10.0.0.1:5000"], ["10.0.0.2:5001"]]


def test_file_of_mlx_launch_gets_the_ports_that_mlx_launch_gives() -> None:
    for content in (LAUNCH_FORMAT, {"backend": "ring", "hosts": LAUNCH_FORMAT}):
        hosts = RankHosts.from_json(json.dumps(content), "hosts.json")
        assert [[str(address) for address in addresses] for addresses in hosts.ranks] == [
            [f"10.0.0.1:{FIRST_PORT}"],
            [f"10.0.0.2:{FIRST_PORT + 1}", f"10.0.1.2:{FIRST_PORT + 2}"],
        ]


def test_file_with_ports_is_kept_as_it_is() -> None:
    hosts = RankHosts.from_json(json.dumps(RING_FORMAT), "hosts.json")
    assert json.loads(hosts.to_json()) == RING_FORMAT
    assert hosts.num_beside(1) == 1


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ([["10.0.0.1:5000"], ["10.0.0.1:5000"]], "hosts 0 and 1 both have the address 10.0.0.1:5000"),
        ([["10.0.0.1:5000"], ["10.0.0.2:0"]], "host 1: expected 'ip:port' with a port of 1 to 65535"),
        ([["10.0.0.1:5000"], ["10.0.0.2:http"]], "host 1: expected 'ip:port' with a port of 1 to 65535"),
        ([["10.0.0.1:5000"], ["mini.local:5000"]], "host 1: 'mini.local' is not an IPv4 address"),
        ([["10.0.0.1:5000"], ["[fe80::2]:5000"]], "host 1: '[fe80::2]' is not an IPv4 address"),
        ([["10.0.0.1:5000"]], "expected 2 to 64 hosts, got 1"),
        ([{"ssh": "studio"}, {"ssh": "mini"}], "host 0 needs `ips`"),
        ([["10.0.0.1:5000"], 7], "host 1: expected an object with `ips`"),
        ({"backend": "jaccl", "hosts": LAUNCH_FORMAT}, "backend 'jaccl' is not supported; use 'ring'"),
        ("hosts", "expected a list of hosts"),
    ],
)
def test_wrong_file_is_one_line(content: object, problem: str) -> None:
    with pytest.raises(UsageError) as failure:
        RankHosts.from_json(json.dumps(content), "hosts.json")
    assert str(failure.value).startswith(f"hosts file 'hosts.json': {problem}")


def test_unreadable_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "text.json").write_text("rank 0: studio")
    for name, problem in (("missing.json", "cannot be read: No such file"), ("text.json", "invalid JSON")):
        with pytest.raises(UsageError, match=problem):
            RankHosts.read(tmp_path / name)


def test_group_without_a_secret_is_refused() -> None:
    with pytest.raises(UsageError, match="set MLXCTL_RANKS_TOKEN to the same secret on all machines"):
        group_token({})
