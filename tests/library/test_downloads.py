"""Downloads from a hub on loopback: files, resumption, errors."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner
from huggingface_hub import constants

from mlxctl.cli import app
from mlxctl.ir.allowed_models import EVERY_MODEL, AllowedModels
from mlxctl.ir.errors import DownloadFailed, PolicyDenied, QueueFull
from mlxctl.library import hub as hub_module
from mlxctl.library.download_journal import Download, DownloadJournal
from mlxctl.library.downloads import MAX_WAITING, Downloads
from mlxctl.library.hub import DownloadPlan, DownloadProgress
from mlxctl.library.names import is_repository
from mlxctl.library.probe_process import ProbeProcess
from tests.small_disk import small_disk

from .tiny_hub import COMMIT, TinyHub, running

_HEADER = b'{"a": {"dtype": "U8", "shape": [1024000], "data_offsets": [0, 1024000]}}'
FILES = {
    "config.json": b'{"model_type": "qwen3"}',
    "tokenizer.json": b"{}",
    "chat_template.jinja": b"{{ messages }}",
    "model.safetensors": len(_HEADER).to_bytes(8, "little") + _HEADER + bytes(range(256)) * 4000,
}
PAGE = b"<!doctype html><title>Sign in</title>"
UNWANTED = {
    "README.md": b"x",
    "pytorch_model.bin": b"x",
    "original/a.safetensors": b"x",
    "consolidated.safetensors": b"x",
}


@pytest.fixture
def hub() -> Iterator[TinyHub]:
    with running(
        TinyHub(files={"org/tiny": {**FILES, **UNWANTED}, "org/empty": {"README.md": b"x"}})
    ) as started:
        yield started


def pull(repository: str, url: str, cache: Path, *options: str) -> tuple[int, str, str]:
    """Return exit code and output of the command with the local hub."""
    with pytest.MonkeyPatch.context() as patch:
        # The library has read its variable.
        patch.setattr(constants, "ENDPOINT", url)
        path_of_file = constants.HUGGINGFACE_CO_URL_TEMPLATE.removeprefix("https://huggingface.co")
        patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", url + path_of_file)
        patch.setenv("HF_HUB_CACHE", str(cache))
        patch.setenv("XDG_STATE_HOME", str(cache))
        done = CliRunner().invoke(app, ["models", "pull", repository, *options])
    return done.exit_code, done.stdout, done.stderr


def pulling(
    repository: str, url: str, cache: Path, program: Sequence[str] = (), **environment: str
) -> "subprocess.Popen[str]":
    """The command as a child process of `program`, with the local hub."""
    variables = {**os.environ, "HF_ENDPOINT": url, "HF_HUB_CACHE": str(cache), "XDG_STATE_HOME": str(cache)}
    variables |= environment
    command = [*program, sys.executable, "-m", "mlxctl", "models", "pull", repository]
    return subprocess.Popen(command, env=variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def pull_in_process(
    repository: str, url: str, cache: Path, program: Sequence[str] = (), **environment: str
) -> tuple[int, str, str]:
    process = pulling(repository, url, cache, program, **environment)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def test_only_needed_files_are_downloaded(hub: TinyHub, tmp_path: Path) -> None:
    code, out, err = pull("org/tiny", hub.url, tmp_path)
    snapshot = tmp_path / "models--org--tiny" / "snapshots" / COMMIT
    assert (code, err) == (0, "")
    assert "mlxctl serve org/tiny" in out
    assert {path.name: path.read_bytes() for path in snapshot.iterdir()} == FILES
    assert (tmp_path / "models--org--tiny" / "refs" / "main").read_text() == COMMIT


def test_a_downloaded_model_that_cannot_be_used_is_named(hub: TinyHub, tmp_path: Path) -> None:
    del hub.files["org/tiny"]["tokenizer.json"]
    code, out, _ = pull("org/tiny", hub.url, tmp_path)
    assert (code, "Try:" in out) == (0, False)
    assert "but it cannot be used: model 'org/tiny' has no tokenizer.json" in " ".join(out.split())


def test_complete_files_are_not_downloaded_again(hub: TinyHub, tmp_path: Path) -> None:
    assert pull("org/tiny", hub.url, tmp_path)[0] == 0
    hub.asked.clear()
    code, out, _ = pull("org/tiny", hub.url, tmp_path)
    assert (code, out.startswith("org/tiny was downloaded before")) == (0, True)
    assert hub.fetched() == []


@pytest.mark.parametrize("name", ["demo", "mlxctl-demo"])
def test_built_in_model_needs_no_download(hub: TinyHub, tmp_path: Path, name: str) -> None:
    code, _, err = pull(name, hub.url, tmp_path)
    assert (code, hub.asked) == (1, [])
    assert "is built into mlxctl and needs no download: mlxctl run demo" in err


def test_broken_connection_resumes_at_its_offset(hub: TinyHub, tmp_path: Path) -> None:
    hub.drop_after = 200_000
    assert pull("org/tiny", hub.url, tmp_path)[0] == 0
    assert hub.fetched().count("model.safetensors") == 2
    weights = tmp_path / "models--org--tiny" / "snapshots" / COMMIT / "model.safetensors"
    assert weights.read_bytes() == FILES["model.safetensors"]


def test_interrupted_download_continues_with_missing_files(hub: TinyHub, tmp_path: Path) -> None:
    hub.seconds_per_piece = 0.5
    process = pulling("org/tiny", hub.url, tmp_path)
    journal = DownloadJournal(tmp_path / "mlxctl" / "downloads", tmp_path)
    until = time.monotonic() + 60
    while [(each.num_files, each.current_file) for each in journal.others()] != [(3, "model.safetensors")]:
        assert time.monotonic() < until, "the small files did not arrive"
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "mlxctl: stopped; complete files are kept, the same command continues\n"
    assert [(each.state, each.pid) for each in journal.others()] == [("cancelled", process.pid)]
    hub.seconds_per_piece = 0.0
    hub.asked.clear()
    assert pull("org/tiny", hub.url, tmp_path)[0] == 0
    assert hub.fetched() == ["model.safetensors"]


@pytest.mark.parametrize(
    ("repository", "refusal", "line"),
    [
        ("org/none", None, "the hub has no repository 'org/none'"),
        ("org/gated", (403, "GatedRepo"), "'org/gated' is gated"),
        ("org/secret", (401, "RepoNotFound"), "or it is private"),
        ("org/ill", (500, ""), "with status 500"),
        ("org/empty", None, "`mlxctl models search` finds models in the MLX format"),
        ("../etc", None, "is not a hub repository"),
        ("llama5", None, "gives no access; short names near it: llama, "),
    ],
)
def test_failed_download_is_a_one_line_error(
    hub: TinyHub, tmp_path: Path, repository: str, refusal: tuple[int, str] | None, line: str
) -> None:
    if refusal:
        hub.refusals[repository] = refusal
    code, out, err = pull(repository, hub.url, tmp_path)
    assert (code, out) == (1, "")
    assert err.startswith("mlxctl: ")
    assert line in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("page", [PAGE, b"", b"[]", b"null", b'{"siblings": 5}'])
def test_hub_that_answers_as_a_proxy_is_a_one_line_error(
    hub: TinyHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: bytes
) -> None:
    hub.page = page
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    with pytest.raises(DownloadFailed, match=f"{hub.url} does not answer as a hub does"):
        hub_module.plan_download("org/tiny", cache=tmp_path)
    assert list(tmp_path.rglob("*.json")) == []


def test_page_in_place_of_a_file_is_no_part_of_a_model(hub: TinyHub, tmp_path: Path) -> None:
    hub.page, hub.page_replaces = PAGE, "files"
    code, _, err = pull("org/tiny", hub.url, tmp_path)
    assert (code, err.count("\n")) == (1, 1)
    assert "a file that arrived has another size than the hub's; the same command tries again" in err
    assert not (tmp_path / "models--org--tiny" / "snapshots" / COMMIT / "config.json").exists()


def test_unreachable_hub_is_a_one_line_error(tmp_path: Path) -> None:
    code, _, err = pull("org/tiny", "http://127.0.0.1:9", tmp_path)
    assert code == 1
    assert "cannot download 'org/tiny': the hub at http://127.0.0.1:9 cannot be reached" in err
    assert "check the network and HTTPS_PROXY" in err
    assert err.count("\n") == 1
    code, _, err = pull_in_process("org/tiny", "http://127.0.0.1:9", tmp_path, HF_HUB_OFFLINE="1")
    assert (code, err) == (1, "mlxctl: cannot download 'org/tiny': HF_HUB_OFFLINE forbids it\n")


def test_full_disk_is_an_error_before_the_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**12, 10**12, 10**9))
    plan = DownloadPlan(repository="org/big", num_files=1, num_bytes=5 * 10**9, num_bytes_left=4 * 10**9)
    with pytest.raises(DownloadFailed, match=r"needs 4\.00 GB more .* which has 1\.00 GB left"):
        hub_module._check_room(plan, tmp_path / "not" / "there")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the files of a file system")
def test_disk_that_fills_up_during_the_download_is_a_one_line_error(hub: TinyHub, tmp_path: Path) -> None:
    # Bytes enough for the check before the download, but room for a few files only.
    with small_disk(tmp_path / "cache", megabytes=300, max_files=16) as cache:
        state = {"XDG_STATE_HOME": str(tmp_path)}
        code, out, err = pull_in_process("org/tiny", hub.url, cache, **state)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "the disk is full; free space, or name another directory in HF_HUB_CACHE" in err


def test_file_that_is_too_large_for_the_disk_is_a_one_line_error(hub: TinyHub, tmp_path: Path) -> None:
    limited = ["sh", "-c", 'ulimit -f 900; exec "$@"', "sh"]
    code, out, err = pull_in_process("org/tiny", hub.url, tmp_path, program=limited)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "a file is too large for the disk's file system" in err


def test_downloads_run_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    downloads = Downloads(tmp_path)
    monkeypatch.setattr(downloads, "_work", lambda: time.sleep(0.2))
    for number in range(MAX_WAITING):
        assert downloads.start(f"org/m{number}", EVERY_MODEL).state == "waiting"
    assert downloads.start("org/m3", EVERY_MODEL).state == "waiting"
    with pytest.raises(QueueFull):
        downloads.start("org/one-too-many", EVERY_MODEL)
    downloads.close()
    assert {download.state for download in downloads.all(EVERY_MODEL)} == {"cancelled"}


def test_caller_has_the_downloads_of_its_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    downloads = Downloads(tmp_path)
    monkeypatch.setattr(downloads, "_work", lambda: None)
    for name in ("org/a", "other/b"):
        downloads.start(name, EVERY_MODEL)
    allowed = AllowedModels(("org/*",))
    assert [download.repository for download in downloads.all(allowed)] == ["org/a"]
    assert downloads.find("other/b", allowed) is downloads.cancel("other/b", allowed) is None
    with pytest.raises(PolicyDenied, match="may not use the model 'other/b'"):
        downloads.start("other/b", allowed)
    downloads.close()


class HeldProbe(ProbeProcess):
    """A probe that ends when the test, or `stop`, releases it."""

    def __init__(self, problem: str | None = None) -> None:
        super().__init__()
        self.started, self.released = threading.Event(), threading.Event()
        self.probed: list[Path] = []
        self._problem = problem

    def run(self, model: Path) -> str | None:
        self.probed.append(model)
        self.started.set()
        assert self.released.wait(60), "nothing released the probe"
        return self._problem

    def stop(self) -> None:
        self.released.set()


@pytest.fixture
def instant_downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Downloads end at once; returns the directory of every model."""
    plan = DownloadPlan(repository="org/a", num_files=1, num_bytes=1, num_bytes_left=1)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("mlxctl.library.downloads.plan_download", lambda *_, **__: plan)
    monkeypatch.setattr("mlxctl.library.downloads.download", lambda *_, **__: tmp_path)
    return tmp_path


def wait_for_probe(downloads: Downloads, state: str) -> Download:
    """Return the download of `org/a` when its probe has this state."""
    deadline = time.monotonic() + 60
    while (found := downloads.find("org/a", EVERY_MODEL)) is None or found.probe != state:
        assert time.monotonic() < deadline, f"the probe is not {state}: {found}"
        time.sleep(0.01)
    return found


@pytest.mark.parametrize(("problem", "state"), [(None, "done"), ("no tokenizer", "failed")])
def test_requested_probe_follows_the_download(
    instant_downloads: Path, problem: str | None, state: str
) -> None:
    probe = HeldProbe(problem)
    downloads = Downloads(instant_downloads, probe=probe)
    downloads.start("org/a", EVERY_MODEL, is_probed=True)
    assert wait_for_probe(downloads, "running").state == "done"
    probe.released.set()
    assert wait_for_probe(downloads, state).probe_error == problem
    assert probe.probed == [instant_downloads]


def test_model_is_not_probed_without_a_request(instant_downloads: Path) -> None:
    probe = HeldProbe()
    downloads = Downloads(instant_downloads, probe=probe)
    downloads.start("org/a", EVERY_MODEL)
    assert downloads.wait(seconds=60)
    assert (downloads.find("org/a", EVERY_MODEL).probe, probe.probed) == (None, [])


def test_stopped_download_reports_the_received_bytes(
    instant_downloads: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose_the_hub(_plan: DownloadPlan, *, progress: DownloadProgress, **_: object) -> Path:
        progress.end_file()
        progress.add(0, 512)
        raise DownloadFailed("org/a", "the hub is gone")

    monkeypatch.setattr("mlxctl.library.downloads.download", lose_the_hub)
    downloads = Downloads(instant_downloads)
    downloads.start("org/a", EVERY_MODEL)
    assert downloads.wait(seconds=60)
    found = downloads.find("org/a", EVERY_MODEL)
    assert (found.state, found.num_files, found.num_bytes) == ("failed", 1, 512)


def test_running_probe_can_be_cancelled(instant_downloads: Path) -> None:
    probe = HeldProbe()
    downloads = Downloads(instant_downloads, probe=probe)
    downloads.start("org/a", EVERY_MODEL, is_probed=True)
    assert probe.started.wait(60)
    assert downloads.cancel("org/a", EVERY_MODEL).probe == "cancelled"
    assert probe.released.is_set()
    assert downloads.find("org/a", EVERY_MODEL).state == "done"


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("org/name", True),
        ("gpt2", True),
        ("org/a.b_c-d", True),
        ("/etc", False),
        ("a/b/c", False),
        ("a--b", False),
        ("..", False),
        ("", False),
    ],
)
def test_repository_names_are_validated(name: str, is_one: bool) -> None:
    assert is_repository(name) == is_one


def test_pull_json_describes_the_download(hub: TinyHub, tmp_path: Path) -> None:
    done = json.loads(pull("org/tiny", hub.url, tmp_path, "--json")[1])
    assert (done["state"], done["num_bytes"]) == ("done", sum(map(len, FILES.values())))


def test_pull_json_has_the_outcome_of_the_probe(hub: TinyHub, tmp_path: Path) -> None:
    code, out, err = pull("org/tiny", hub.url, tmp_path, "--probe", "--json")
    view = json.loads(out)
    assert (code, view["state"], view["probe"]) == (1, "done", "failed")
    assert view["probe_error"] in err


def test_pull_probes_the_model_on_request(hub: TinyHub, tmp_path: Path) -> None:
    code, out, err = pull("org/tiny", hub.url, tmp_path, "--probe")
    assert "downloaded org/tiny" in out
    assert "org/tiny" in err + out.partition("downloaded org/tiny")[2]
    assert code == 1, "the weights of this repository are no model"
