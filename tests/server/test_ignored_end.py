"""`ignore_eos`: answers of an exact length."""

from typing import Any

import httpx
import pytest

from .process import ServerProcess


def answer(server: ServerProcess, path: str, **fields: Any) -> tuple[int, str]:
    """Return the number of tokens and the finish reason."""
    body = {
        "model": "mlxctl-demo",
        "max_tokens": 80,
        "temperature": 0,
        "chat_template_kwargs": {"enable_thinking": False},
        **fields,
    }
    found = httpx.post(f"{server.url}/v1/{path}", json=body, timeout=60).json()
    return found["usage"]["completion_tokens"], found["choices"][0]["finish_reason"]


@pytest.mark.parametrize(
    ("path", "prompt"),
    [
        ("chat/completions", {"messages": [{"role": "user", "content": "Hello!"}]}),
        ("completions", {"prompt": "<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n"}),
    ],
)
def test_ignore_eos_generates_past_the_end_token(
    demo_server: ServerProcess, path: str, prompt: dict[str, Any]
) -> None:
    num_tokens, reason = answer(demo_server, path, **prompt)
    assert (num_tokens < 80, reason) == (True, "stop")
    assert answer(demo_server, path, **prompt, ignore_eos=True) == (80, "length")
    assert answer(demo_server, path, **prompt, ignore_eos=False) == (num_tokens, "stop")


def test_ignore_eos_with_structured_output_is_refused(demo_server: ServerProcess) -> None:
    messages = [{"role": "user", "content": "Hello!"}]
    body = {"model": "mlxctl-demo", "messages": messages, "ignore_eos": True, "guided_regex": "yes|no"}
    refused = httpx.post(f"{demo_server.url}/v1/chat/completions", json=body, timeout=60)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "ignore_eos")


def test_ignored_end_tokens_have_logprobs(demo_server: ServerProcess) -> None:
    body = {"model": "mlxctl-demo", "prompt": "<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n"}
    options = {"max_tokens": 80, "temperature": 0, "ignore_eos": True, "logprobs": 1}
    found = httpx.post(f"{demo_server.url}/v1/completions", json=body | options, timeout=60).json()
    tokens = found["choices"][0]["logprobs"]["tokens"]
    assert (len(tokens), "<|im_end|>" in tokens) == (80, True)
