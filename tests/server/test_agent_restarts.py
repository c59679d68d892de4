"""Agents after a restart of their server."""

import signal
from pathlib import Path

import httpx

from .agent_client import Agent
from .hosted import hosting
from .process import serving, wait_for


def test_agents_survive_a_restart_and_change_models(endless_model: Path, tmp_path: Path) -> None:
    with serving(endless_model, XDG_STATE_HOME=str(tmp_path)) as before:
        agent = Agent(before, id="traveller", instructions="Go on.", metadata={"trip": "1"})
        first = agent.answer_to("One")
        looked = agent.look()
        before.stop(signal.SIGKILL)
    renamed = ("--name", "other", "--no-any-model-name")
    with hosting(endless_model, *renamed, XDG_STATE_HOME=str(tmp_path)) as after:
        agent.url = f"{after.url}/v1/agents/traveller"
        cold = agent.look()
        assert agent.turn("Two").json()["error"]["code"] == "model_not_found"
        second = agent.answer_to("Two", model="other")
        warmed = agent.look()
    assert {key: cold[key] for key in ("id", "instructions", "metadata", "num_messages")} == {
        key: looked[key] for key in ("id", "instructions", "metadata", "num_messages")
    }
    assert (cold["status"], cold["context_tokens"]) == ("cold", None)
    assert (warmed["status"], warmed["model"], warmed["num_messages"]) == ("hot", "other", 4)
    assert warmed["last_access_at"] >= cold["last_access_at"] >= cold["created_at"]
    assert first != second != ""


def test_agent_is_warm_after_restart_and_lost_without_persist(endless_model: Path, tmp_path: Path) -> None:
    places = {"XDG_STATE_HOME": str(tmp_path / "state"), "MLXCTL_ENGINE_CACHE_DIR": str(tmp_path / "cache")}
    with hosting(endless_model, **places) as before:
        agent = Agent(before, id="sleeper", instructions="A long beginning. " * 40)
        lost = Agent(before, id="lost", persist=False)
        agent.answer_to("One")
        lost.answer_to("very long " * 20)
        hot = agent.look()
        assert lost.look()["caches"][0]["status"] == "hot"
        listed = httpx.get(f"{before.url}/v1/agents").json()["data"]
        assert [(one["id"], one["persist"]) for one in listed] == [("sleeper", True), ("lost", False)]
        counts = {"on_disk": 1, "in_memory": 1, "running": 0, "waiting": 0, "hot": 2, "warm": 0, "cold": 0}
        # Agents are looked up every few seconds only.
        wait_for(lambda: before.health()["agents"] == counts, seconds=60)
    with hosting(endless_model, **places) as after:
        assert [one["id"] for one in httpx.get(f"{after.url}/v1/agents").json()["data"]] == ["sleeper"]
        agent.url = f"{after.url}/v1/agents/sleeper"
        warm = agent.look()
        usage = agent.turn("Two").json()["usage"]
        awake = agent.look()
    assert [looked["status"] for looked in (hot, warm, awake)] == ["hot", "warm", "hot"]
    assert (warm["cached_tokens"], warm["context_tokens"]) == (0, hot["context_tokens"])
    assert usage["prompt_tokens_details"]["cached_tokens"] > usage["prompt_tokens"] // 2
