"""Options that ranks do not have are refused at the start."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from mlxctl.cli import app
from tests import tiny_models

UNUSABLE = {
    "--speculation": "lookup",
    "--adapter": "a=adapter",
    "--kv-bits": "8",
    "--prefix-cache-bits": "8",
    "--cache-dir": "cache",
}


@pytest.mark.parametrize(("option", "value"), UNUSABLE.items())
def test_option_is_refused_by_name(option: str, value: str) -> None:
    arguments = ["serve", str(tiny_models.model("qwen3")), "--port", "0", "--ranks", "2", option, value]

    done = CliRunner().invoke(app, arguments)

    assert done.exit_code == 2
    assert f"{option} does not work on several ranks" in done.stderr


def test_ranks_beside_hosts_are_refused(tmp_path: Path) -> None:
    (tmp_path / "hosts.json").write_text('[["127.0.0.1:5000"], ["127.0.0.1:5001"]]')
    model, hosts = str(tiny_models.model("qwen3")), str(tmp_path / "hosts.json")

    done = CliRunner().invoke(app, ["serve", model, "--port", "0", "--ranks", "2", "--hosts", hosts])

    assert done.exit_code == 2
    assert "--ranks and --hosts exclude each other" in done.stderr
