"""Check generation: one request of every protocol to a demo server."""

import asyncio
import os
import tempfile
import time
from collections.abc import Mapping
from typing import Any

import httpx

from mlxctl.bench.server_process import ServerSubprocess
from mlxctl.cli.doctor.check_result import CheckResult
from mlxctl.ir.errors import MlxctlError

_TRY_SECONDS = 120.0
_MESSAGES = [{"role": "user", "content": "Hello!"}]
# Short answers; Responses require at least 16 tokens.
_QUESTIONS: Mapping[str, Mapping[str, Any]] = {
    "/v1/chat/completions": {"messages": _MESSAGES, "max_tokens": 1},
    "/v1/completions": {"prompt": "Hello", "max_tokens": 1},
    "/v1/responses": {"input": "Hello!", "max_output_tokens": 16, "store": False},
    "/v1/messages": {"messages": _MESSAGES, "max_tokens": 1},
}
_REMEDY = "`mlxctl serve`, without options, shows the whole error in its log"


def check_answer() -> CheckResult:
    """Start `mlxctl serve` without settings and request an answer. Takes seconds."""
    started = time.monotonic()
    problem = asyncio.run(_problem())
    seconds = time.monotonic() - started
    if problem is not None:
        return CheckResult(
            name="answer",
            verdict="broken",
            facts=f"the demo model gave no answer over HTTP: {problem}",
            remedy=_REMEDY,
        )
    return CheckResult(
        name="answer",
        verdict="ok",
        facts=f"the demo model answered over HTTP with every protocol ({seconds:.1f} s)",
    )


async def _problem() -> str | None:
    """Return the problem in one line; None when every protocol works."""
    # The user's settings may name a large model and a fixed port; this checks the installation only.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MLXCTL_")}
    with tempfile.NamedTemporaryFile(suffix=".toml") as empty:
        server = ServerSubprocess(["--config", empty.name], environment=environment)
        try:
            async with asyncio.timeout(_TRY_SECONDS):
                return await _try_protocols(await server.start())
        except TimeoutError:
            return f"nothing within {_TRY_SECONDS:g} s"
        except (MlxctlError, httpx.HTTPError, OSError) as error:
            return " ".join(str(error).split()) or type(error).__name__
        finally:
            await server.close()


async def _try_protocols(url: str) -> str | None:
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=_TRY_SECONDS) as client:
        model = (await client.get("/v1/models")).json()["data"][0]["id"]
        for path, question in _QUESTIONS.items():
            answer = await client.post(path, json={"model": model, **question})
            if answer.status_code != httpx.codes.OK:
                return f"{path} gave status {answer.status_code}: {_message(answer)}"
            usage = answer.json()["usage"]
            if not usage.get("completion_tokens", usage.get("output_tokens")):
                return f"{path} gave no token"
    return None


def _message(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return answer.text[:200]
