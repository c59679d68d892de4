"""A server that had API keys does not start without them."""

import asyncio
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import mlxctl
from mlxctl.cli.doctor.directories import check_access
from mlxctl.ir.errors import SettingsError
from mlxctl.ir.policy import Limits
from mlxctl.server.policy import PolicyService, SettingsPolicy
from mlxctl.server.policy.access import check_keys
from mlxctl.server.policy.admin import NewKey
from mlxctl.server.policy.store_backend import StoredPolicy
from mlxctl.state import locations
from mlxctl.state.settings import ServerSettings, resolve
from mlxctl.state.stores.policy import PolicyStore


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state directory of the commands and servers of a test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "mlxctl"


def policy(path: Path, **settings: Any) -> PolicyService:
    """The policy of a server that starts now."""
    store = PolicyStore(path, keys_marker=locations.keys_marker_file(path))
    return PolicyService(of_settings := SettingsPolicy(**settings), StoredPolicy(store, of_settings))


def starts(service: PolicyService, **settings: Any) -> bool:
    try:
        check_keys(ServerSettings(**settings), service)
    except SettingsError:
        return False
    return True


def test_server_whose_key_store_is_deleted_does_not_start(home: Path) -> None:
    policy(locations.policy_file()).admin.add(NewKey(name="first"))
    for file in home.glob("policy.sqlite*"):
        file.unlink()
    command = [sys.executable, "-m", "mlxctl", "serve", "--port", "0"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert refused.returncode == 1
    assert refused.stderr == (
        f"mlxctl: the API keys are lost: '{home}/policy.sqlite' has none; restore it from a backup, or "
        "`mlxctl admin keys add NAME --scope admin --local` adds one; "
        "MLXCTL_SERVER_REQUIRE_KEYS=false starts without keys\n"
    )
    access = check_access(resolve(environment={}))
    assert (access.verdict, refused.stderr) == ("broken", f"mlxctl: {access.facts}\n")


def test_keys_of_a_lost_store_are_remembered(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "mounted" / "policy.sqlite"
    assert starts(policy(path))
    policy(path).admin.set_limits(Limits(concurrent=1))
    assert starts(policy(path))
    key = policy(path).admin.add(NewKey(name="first"))
    policy(path).admin.revoke(key.id)
    assert starts(policy(path)), "a revoked key is none that opens the server"
    shutil.rmtree(path.parent)
    assert not starts(policy(path))
    policy(path).admin.set_limits(Limits(concurrent=1))
    assert not starts(policy(path)), "a new store without keys is not the lost one"
    assert starts(policy(path), require_keys=False)
    assert starts(policy(path, api_keys=["of-the-settings"]))
    assert starts(policy(tmp_path / "another.sqlite")), "another server of this user never had keys"
    policy(path).admin.add(NewKey(name="again"))
    assert starts(policy(path))


def test_store_of_an_earlier_version_is_remembered_when_it_is_read(home: Path) -> None:
    path = locations.policy_file()
    policy(path).admin.add(NewKey(name="first"))
    locations.keys_marker_file(path).unlink()
    assert policy(path).requires_keys
    path.unlink()
    assert not starts(policy(path))


def test_required_keys_are_required_where_there_never_were_any(home: Path) -> None:
    path = locations.policy_file()
    assert not starts(policy(path), require_keys=True)
    # Without API keys, callers without a key may generate.
    assert not starts(policy(path, admin_keys=["admin"]), require_keys=True)
    policy(path).admin.add(NewKey(name="first"))
    assert starts(policy(path), require_keys=True)


def test_embedded_server_does_not_open_either(
    home: Path, endless_model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home.mkdir()
    home.chmod(0o777)
    server = mlxctl.embed(endless_model, settings={"server": {"require_keys": True}}, in_process=True)
    with pytest.raises(SettingsError, match=r"server\.require_keys: there is no API key"):
        asyncio.run(server.open())
    assert f"directory '{home}' could be written by every user" in caplog.text
    assert stat.S_IMODE(home.stat().st_mode) == 0o755
