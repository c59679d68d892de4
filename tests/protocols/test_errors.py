"""Errors in each protocol's shape."""

import json
from pathlib import Path

import pytest

from mlxctl.ir.errors import (
    AuthenticationFailed,
    BodyTooLarge,
    BrokenModel,
    ClientTooSlow,
    Conflict,
    ContextOverBudget,
    ContextTooLong,
    DeadlineExceeded,
    EngineDied,
    EngineRecovering,
    InvalidRequest,
    KeyRevoked,
    MemoryShortage,
    MethodNotAllowed,
    MlxctlError,
    ModelLoading,
    PracticalContextExceeded,
    QueueFull,
    RequestCancelled,
    ShuttingDown,
    UnknownModel,
    UnknownResource,
)
from mlxctl.protocols import anthropic_error, openai_error
from mlxctl.protocols.compat.llama_cpp.errors import llama_error
from mlxctl.protocols.compat.rerank.encode import cohere_error

TOO_LONG = ContextTooLong(num_prompt_tokens=9, context_length=8)
TOO_LONG_FOR_MEMORY = PracticalContextExceeded(num_prompt_tokens=9, context_length=8, reason="it was probed")


@pytest.mark.parametrize(
    ("error", "status", "kind", "param", "code"),
    [
        (
            InvalidRequest("top_p must be a number", param="top_p"),
            400,
            "invalid_request_error",
            "top_p",
            None,
        ),
        (
            InvalidRequest("n must be 1", param="n", code="unsupported"),
            400,
            "invalid_request_error",
            "n",
            "unsupported",
        ),
        (TOO_LONG, 400, "invalid_request_error", "messages", "context_length_exceeded"),
        (TOO_LONG_FOR_MEMORY, 400, "memory_admission", "messages", "context_over_budget"),
        (UnknownModel("gpt"), 404, "invalid_request_error", "model", "model_not_found"),
        (UnknownResource("no such route"), 404, "invalid_request_error", None, "not_found"),
        (Conflict("the id is taken", param="id"), 409, "invalid_request_error", "id", "conflict"),
        (MethodNotAllowed("PUT", ("GET", "POST")), 405, "invalid_request_error", None, "method_not_allowed"),
        (BodyTooLarge(limit_bytes=9), 413, "invalid_request_error", None, "request_too_large"),
        (AuthenticationFailed("the API key is wrong"), 401, "authentication_error", None, "invalid_api_key"),
        (QueueFull("too many requests"), 429, "rate_limit_error", None, "rate_limit_exceeded"),
        (MemoryShortage("no memory"), 503, "server_error", None, "memory_exhausted"),
        (ContextOverBudget("too much"), 400, "memory_admission", "messages", "context_over_budget"),
        (RequestCancelled("cancelled"), 499, "request_cancelled", None, "request_cancelled"),
        (KeyRevoked(), 401, "authentication_error", None, "invalid_api_key"),
        (EngineRecovering("the engine starts again"), 503, "server_error", None, "engine_recovering"),
        (ModelLoading("the model is being loaded"), 503, "server_error", None, "model_loading"),
        (ShuttingDown("shutting down"), 503, "server_error", None, "shutting_down"),
        (EngineDied("the engine died"), 500, "server_error", None, "internal_error"),
        (DeadlineExceeded("took too long"), 504, "timeout_error", None, "deadline_exceeded"),
        (ClientTooSlow(num_tokens=9, seconds=5.0), 408, "timeout_error", None, "client_too_slow"),
    ],
)
def test_openai_error_shape(
    error: MlxctlError, status: int, kind: str, param: str | None, code: str | None
) -> None:
    answer = openai_error(error)
    assert answer.status == status
    assert json.loads(answer.body) == {
        "error": {"message": str(error), "type": kind, "param": param, "code": code}
    }


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (InvalidRequest("top_p must be a number", param="top_p"), 400, "invalid_request_error"),
        (TOO_LONG, 400, "invalid_request_error"),
        (TOO_LONG_FOR_MEMORY, 400, "invalid_request_error"),
        (UnknownModel("gpt"), 404, "not_found_error"),
        (UnknownResource("no such route"), 404, "not_found_error"),
        (MethodNotAllowed("PUT", ("GET",)), 405, "invalid_request_error"),
        (BodyTooLarge(limit_bytes=9), 413, "request_too_large"),
        (AuthenticationFailed("the API key is wrong"), 401, "authentication_error"),
        (QueueFull("too many requests"), 429, "rate_limit_error"),
        (MemoryShortage("no memory"), 529, "overloaded_error"),
        (ContextOverBudget("too much"), 400, "invalid_request_error"),
        (RequestCancelled("cancelled"), 499, "api_error"),
        (KeyRevoked(), 401, "authentication_error"),
        (EngineRecovering("the engine starts again"), 503, "overloaded_error"),
        (ModelLoading("the model is being loaded"), 503, "overloaded_error"),
        (ShuttingDown("shutting down"), 503, "overloaded_error"),
        (EngineDied("the engine died"), 500, "api_error"),
        (DeadlineExceeded("took too long"), 504, "timeout_error"),
        (ClientTooSlow(num_tokens=9, seconds=5.0), 408, "timeout_error"),
    ],
)
def test_anthropic_error_shape(error: MlxctlError, status: int, kind: str) -> None:
    answer = anthropic_error(error, request_id="req_1")
    assert answer.status == status
    assert json.loads(answer.body) == {
        "type": "error",
        "error": {"type": kind, "message": str(error)},
        "request_id": "req_1",
    }


@pytest.mark.parametrize("encode", [openai_error, anthropic_error])
def test_error_headers(encode: type) -> None:
    assert encode(QueueFull("full", retry_after_seconds=1.2)).headers == {"Retry-After": "2"}
    assert encode(QueueFull("full", retry_after_seconds=0)).headers == {"Retry-After": "1"}
    assert encode(AuthenticationFailed("no key")).headers == {"WWW-Authenticate": 'Bearer realm="mlxctl"'}
    assert encode(MethodNotAllowed("PUT", ("GET", "HEAD"))).headers == {"Allow": "GET, HEAD"}
    assert encode(TOO_LONG).headers == {}


@pytest.mark.parametrize("encode", [openai_error, anthropic_error])
def test_internal_details_are_not_in_error_messages(encode: type) -> None:
    answer = encode(BrokenModel(Path("/home/ann/secret"), "no weights in /home/ann/secret"))
    assert answer.status == 500
    assert b"ann" not in answer.body


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (InvalidRequest("top_p must be a number"), {"code": 400, "type": "invalid_request_error"}),
        (UnknownModel("gpt"), {"code": 404, "type": "not_found_error"}),
        (ModelLoading("the model is being loaded"), {"code": 503, "type": "unavailable_error"}),
        (EngineDied("the engine died"), {"code": 500, "type": "server_error"}),
        (
            TOO_LONG,
            {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 9, "n_ctx": 8},
        ),
    ],
)
def test_llama_cpp_error_shape(error: MlxctlError, expected: dict[str, object]) -> None:
    answer = llama_error(error, request_id="req_1")
    assert answer.status == expected["code"]
    assert json.loads(answer.body) == {"error": {"message": str(error)} | expected}


def test_cohere_error_shape() -> None:
    answer = cohere_error(InvalidRequest("query is empty; send a text"), request_id="req_1")
    assert (answer.status, json.loads(answer.body)) == (
        400,
        {"id": "req_1", "message": "query is empty; send a text"},
    )
