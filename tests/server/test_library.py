"""The library, memory estimates and downloads over HTTP."""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from falcon import testing

from mlxctl.library.download_journal import Download, DownloadJournal
from mlxctl.server import create_app
from mlxctl.server.wiring import build_services
from mlxctl.state.settings import LibrarySettings, ModelSettings, ServerSettings, Settings
from tests.library.tiny_hub import TinyHub, running
from tests.library.weight_files import write_model

from .conftest import LocalClient
from .process import ServerProcess, serving, wait_for

KEY = {"Authorization": "Bearer secret"}
CONFIG = {
    "model_type": "qwen3",
    "architectures": ["Qwen3ForCausalLM"],
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
    "max_position_embeddings": 4096,
}


def app(
    models: Path, *, allow_downloads: bool = False, model: ModelSettings | None = None
) -> testing.TestClient:
    """The application before its engine runs, with a library and a key."""
    library = LibrarySettings(
        models_dirs=(models,),
        hub_cache=models / "hub",
        aliases={"quick": "good"},
        allow_downloads=allow_downloads,
    )
    server = ServerSettings(api_keys=("secret",))
    settings = Settings(server=server, library=library, model=model or ModelSettings())

    async def build() -> testing.TestClient:
        return LocalClient(create_app(build_services(settings), settings.server))

    return asyncio.run(build())


@pytest.fixture
def models(tmp_path: Path) -> Path:
    write_model(tmp_path / "good", CONFIG, {"a.weight": ("BF16", (64, 64))})
    (write_model(tmp_path / "bad", CONFIG, {}) / "config.json").write_text("{")
    return tmp_path


def get(client: testing.TestClient, path: str) -> Any:
    return client.simulate_get(path, headers=KEY)


@pytest.mark.parametrize("path", ["/library", "/downloads", "/fit?model=good"])
def test_missing_key_returns_401(models: Path, path: str) -> None:
    assert app(models).simulate_get(path).status_code == 401
    assert get(app(models), path).status_code == 200


def test_library_lists_all_models_without_paths(models: Path) -> None:
    answer = get(app(models), "/library")
    found = {model["name"]: model for model in answer.json["models"]}
    assert (found["good"]["kind"], found["good"]["family"], found["good"]["problem"]) == (
        "text",
        "qwen",
        None,
    )
    assert not found["good"]["probed"]
    assert "not valid JSON" in found["bad"]["problem"]
    assert answer.json["aliases"] == ["quick"]
    assert str(models) not in answer.text


def test_library_has_experts_assessment_and_use(models: Path) -> None:
    experts = {**CONFIG, "model_type": "qwen3_moe", "num_experts": 8, "num_experts_per_tok": 2}
    write_model(models / "moe", experts, {"a.weight": ("BF16", (64, 64))})
    client = app(models)
    found = {model["name"]: model for model in get(client, "/library").json["models"]}
    assert [found["moe"][key] for key in ("is_moe", "n_experts", "n_active_experts")] == [True, 8, 2]
    good = found["good"]
    assert (good["is_moe"], good["serving"], found["moe"]["serving"]) == (False, "quick", None)
    assert good["assessment"]["fits"]
    assert (good["size_bytes"], good["quant_bits"]) == (good["disk_bytes"], good["bits"])
    assert good["repo_id"] == good["name"]
    assert found["bad"]["assessment"] is None
    write_model(models / "later", CONFIG, {"a.weight": ("BF16", (64, 64))})
    assert "later" not in get(client, "/library").text
    assert "later" in get(client, "/library?refresh=1").text


def test_library_tells_the_own_name_of_a_model_with_aliases(models: Path) -> None:
    answer = get(app(models, model=ModelSettings(path=models / "good", name="own")), "/library").json
    serving = {model["name"]: model["serving"] for model in answer["models"]}
    assert (answer["aliases"], serving["good"]) == (["quick"], "own")


def test_fit_without_a_model_is_of_the_loaded_models(models: Path) -> None:
    assert get(app(models), "/fit").json == {"fits": []}


def test_fit_matrix_covers_apple_chips_on_request(models: Path) -> None:
    fit = get(app(models), "/fit?model=mlxctl-demo&sku_matrix=1").json
    assert fit["sku_matrix_ctx"] == 32_768
    assert {"Apple M1", "Apple M4"} <= {sku["chip"].split(" (")[0] for sku in fit["sku_matrix"]}


def test_fit_accepts_names_and_aliases(models: Path) -> None:
    fit = get(app(models), "/fit?model=good&context=1000").json
    assert (fit["fits"], fit["context_tokens"], fit["weights_bytes"]) == (True, 1000, 64 * 64 * 2)
    # With room for the answer and the next turn.
    assert fit["cache_bytes"] == 1536 * 2 * 2 * 2 * 16 * 2
    assert get(app(models), "/fit?model=quick").json["model"] == "quick"


def test_fit_has_a_report_the_machine_and_a_typical_context(models: Path) -> None:
    fit = get(app(models), "/fit?model=good&context=1000").json
    report, machine = fit["report"], fit["machine"]
    assert report["total_bytes"] == sum(
        report[part] for part in ("weights_bytes", "kv_bytes", "prefix_bytes", "transient_bytes")
    )
    assert (report["usable_bytes"], report["max_safe_context"]) == (fit["usable_bytes"], 4096)
    assert machine["ram_bytes"] >= report["usable_bytes"]
    assert fit["typical_context_tokens"] == CONFIG["max_position_embeddings"]


def test_fit_of_a_broken_model_has_a_reason(models: Path) -> None:
    fit = get(app(models), "/fit?model=bad").json
    assert fit["fits"] is None
    assert "not valid JSON" in fit["problem"]


@pytest.mark.parametrize(
    ("query", "status", "param"),
    [
        ("model=good&context=0", 400, "context"),
        ("model=good&context=x", 400, "context"),
        ("model=none", 404, "model"),
    ],
)
def test_invalid_fit_parameters_are_refused_by_name(
    models: Path, query: str, status: int, param: str
) -> None:
    answer = get(app(models), f"/fit?{query}")
    assert (answer.status_code, answer.json["error"]["param"]) == (status, param)


def test_fit_of_an_unknown_model_names_the_served_ones(models: Path) -> None:
    detail = get(app(models), "/fit?model=mlxctl-dem").json["detail"]
    assert detail.startswith("model 'mlxctl-dem' is not served here; did you mean 'mlxctl-demo'?")


def test_directory_path_is_no_model_name(models: Path) -> None:
    assert get(app(models), f"/fit?model={models / 'good'}").status_code == 404


def test_downloads_are_disabled_by_default(models: Path) -> None:
    body = json.dumps({"repo": "org/tiny"})
    answer = app(models).simulate_post("/downloads", headers=KEY, body=body)
    assert (answer.status_code, answer.json["error"]["code"]) == (403, "feature_disabled")
    assert "library.allow_downloads" in answer.json["error"]["message"]
    assert app(models, allow_downloads=True).simulate_post("/downloads", body=body).status_code == 401


def test_hub_is_searched_where_downloads_are_allowed(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    with running(TinyHub(files={"org/tiny": {}})) as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.url)
        client = app(models, allow_downloads=True)
        found = get(client, "/library/hub?search=tiny").json["models"]
        assert found == [{"repository": "org/tiny", "downloads": 7, "updated_at": "2026-01-02", "task": None}]
        assert "search=tiny" in hub.asked[-1]
        assert get(client, "/library/hub").json["error"]["param"] == "search"
    refused = get(app(models), "/library/hub?search=tiny")
    assert "library.allow_downloads" in refused.json["error"]["message"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ("", None),
        ("[]", None),
        ("{}", "repo"),
        ('{"repo": 1}', "repo"),
        ('{"repo": "../etc"}', "repo"),
        ('{"repo": "a/b", "revision": "x"}', "revision"),
        ('{"repo": "qwen3:9b"}', "repo"),
        ('{"repo": "https://huggingface.co/a/b/tree/dev"}', "repo"),
    ],
)
def test_invalid_downloads_are_refused(models: Path, body: str, param: str | None) -> None:
    headers = {**KEY, "Content-Type": "application/json"}
    answer = app(models, allow_downloads=True).simulate_post("/downloads", headers=headers, body=body)
    assert (answer.status_code, answer.json["error"]["param"]) == (400, param)


def test_cross_site_post_cannot_start_a_download(models: Path) -> None:
    headers = {**KEY, "Content-Type": "text/plain", "Origin": "https://evil.example"}
    answer = app(models, allow_downloads=True).simulate_post(
        "/downloads", headers=headers, body='{"repo": "org/tiny"}'
    )
    assert answer.status_code == 400
    assert "application/json" in answer.json["error"]["message"]


def test_download_of_another_process_is_listed_and_not_cancelled(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(models))
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: 41)
        other = Download(
            repository="org/tiny", state="running", started_at=1.0, current_file="a.json", pid=41
        )
        DownloadJournal(models / "mlxctl" / "downloads", models / "hub").write([other])
    client = app(models, allow_downloads=True)

    (listed,) = get(client, "/downloads").json["downloads"]
    assert (listed["repo"], listed["current_file"], listed["pid"]) == ("org/tiny", "a.json", 41)
    refused = client.simulate_delete("/downloads/org/tiny", headers=KEY)
    assert (refused.status_code, "process 41" in refused.json["error"]["message"]) == (409, True)
    assert client.simulate_delete("/downloads/org/none", headers=KEY).status_code == 404


def test_unknown_short_name_gets_near_ones(models: Path) -> None:
    body = json.dumps({"repo": "qwen3:9b"})
    answer = app(models, allow_downloads=True).simulate_post("/downloads", headers=KEY, body=body)
    assert "short names near it: qwen3:4b" in answer.json["error"]["message"]


def test_failed_download_of_another_process_is_dismissed(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(models))
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: 42)
        states = {"org/tiny": "failed", "org/done": "done"}
        others = [Download(repository=name, state=state, ended_at=1.0) for name, state in states.items()]
        DownloadJournal(models / "mlxctl" / "downloads", models / "hub").write(others)
    # Also a server that downloads nothing itself.
    client = app(models)
    assert client.simulate_delete("/downloads/org/tiny", headers=KEY).json["state"] == "failed"
    assert [each["repo"] for each in get(client, "/downloads").json["downloads"]] == ["org/done"]


@pytest.fixture(scope="module")
def server(endless_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Server of the endless model, with a hub of one repository."""
    files = {
        "config.json": json.dumps(CONFIG).encode(),
        "model.safetensors": (2).to_bytes(8, "little") + b"{}",
    }
    cache_dir = tmp_path_factory.mktemp("hub")
    with (
        running(TinyHub(files={"org/tiny": files})) as hub,
        serving(endless_model, **hub.server_settings(cache_dir)) as process,
    ):
        yield process


def test_downloaded_model_is_in_the_library(server: ServerProcess) -> None:
    assert httpx.post(f"{server.url}/downloads", json={"repo": "org/tiny"}).status_code == 202
    body = {"repo": "org/none", "probe": True}
    assert httpx.post(f"{server.url}/downloads", json=body).json()["probe"] == "waiting"

    def states() -> list[str]:
        return [download["state"] for download in httpx.get(f"{server.url}/downloads").json()["downloads"]]

    wait_for(lambda: states() == ["done", "failed"], seconds=60)
    done = httpx.get(f"{server.url}/downloads").json()["downloads"][0]
    assert done["files_done"] == done["files_total"] > 0
    assert done["started_at"] <= done["finished_at"]
    assert (done["current_file"], done["pid"]) == (None, server.process.pid)
    failed = httpx.get(f"{server.url}/downloads").json()["downloads"][1]
    assert (done["probe"], failed["probe"]) == (None, "cancelled")
    address = {"repo": "https://huggingface.co/org/none/tree/main"}
    assert httpx.post(f"{server.url}/downloads", json=address).json()["repo"] == "org/none"
    wait_for(lambda: states() == ["done", "failed"], seconds=60)
    assert httpx.delete(f"{server.url}/downloads/org/none").json()["state"] == "failed"
    assert states() == ["done"]
    assert httpx.delete(f"{server.url}/downloads/org/other").status_code == 404
    assert [model["name"] for model in httpx.get(f"{server.url}/library").json()["models"]] == ["org/tiny"]


def test_lm_studio_downloads_and_reports(endless_model: Path, tmp_path: Path) -> None:
    source = write_model(tmp_path / "source", CONFIG, {"a.weight": ("BF16", (64, 64))})
    files = {file.name: file.read_bytes() for file in source.iterdir()}
    with (
        running(TinyHub(files={"org/tiny": files})) as hub,
        serving(endless_model, **hub.server_settings(tmp_path / "hub")) as process,
    ):
        url = f"{process.url}/api/v1/models/download"

        def state(job: str) -> dict[str, Any]:
            found: dict[str, Any] = httpx.get(f"{url}/status/{job}").json()
            return found

        asked = {"model": "https://huggingface.co/org/tiny"}
        started = httpx.post(url, json=asked).json()
        assert (started["status"], started["downloaded_bytes"]) == ("downloading", 0)
        wait_for(lambda: state(started["job_id"])["status"] == "completed", seconds=60)
        done = state(started["job_id"])
        assert done["downloaded_bytes"] == done["total_size_bytes"] > 0
        assert done["started_at"] <= done["completed_at"]
        assert httpx.post(url, json=asked).json() == {"status": "already_downloaded"}
        failing = httpx.post(url, json={"model": "org/absent"}).json()["job_id"]
        wait_for(lambda: state(failing)["status"] == "failed", seconds=60)


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"model": "not a repository"}, 400, "model"),
        ({"model": "org/tiny", "quantization": "Q4_K_M"}, 400, "quantization"),
        ({}, 400, "model"),
    ],
)
def test_lm_studio_download_names_the_wrong_field(
    server: ServerProcess, body: dict[str, str], status: int, param: str
) -> None:
    answer = httpx.post(f"{server.url}/api/v1/models/download", json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (status, param)
    assert httpx.get(f"{server.url}/api/v1/models/download/status/job_0").status_code == 404


def test_lm_studio_download_needs_the_setting(models: Path) -> None:
    answer = app(models).simulate_post(
        "/api/v1/models/download", headers=KEY, body=json.dumps({"model": "org/tiny"})
    )
    assert (answer.status_code, answer.json["error"]["code"]) == (403, "feature_disabled")


def test_model_list_has_library_data(server: ServerProcess) -> None:
    (model,) = httpx.get(f"{server.url}/v1/models").json()["data"]
    assert (model["kind"], model["family"], model["quantization"]) == ("text", "qwen", None)
    assert model["num_parameters"] * 4 == pytest.approx(model["size_bytes"], rel=0.05)
    assert model["max_model_len"] == 32768
    assert (model["adapter"]["tool_parser_id"], model["adapter"]["takes_later_system"]) == (
        "hermes_json",
        True,
    )
    assert httpx.get(f"{server.url}/v1/models/tiny").json() == model


def test_downloaded_model_is_probed_in_a_separate_process(server: ServerProcess) -> None:
    body = {"repo": "org/tiny", "probe": True}
    assert httpx.post(f"{server.url}/downloads", json=body).json()["probe"] == "waiting"

    def probed() -> dict[str, object]:
        return next(
            download
            for download in httpx.get(f"{server.url}/downloads").json()["downloads"]
            if download["repo"] == "org/tiny"
        )

    wait_for(lambda: probed()["probe"] == "failed", seconds=60)
    assert (probed()["state"], "tokenizer" in str(probed()["probe_error"])) == ("done", True)
