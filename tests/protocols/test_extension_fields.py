"""mlxctl's own fields: the same in every dialect."""

import json
from typing import Any

import msgspec
import pytest

from mlxctl.ir import CacheOptions, GenerationRequest, KeepAlive, SamplingParams
from mlxctl.ir.errors import InvalidRequest
from mlxctl.ir.lora import LoraChoice
from mlxctl.protocols import PROTOCOLS, AnswerStart
from mlxctl.protocols.anthropic.messages import parse_count_tokens
from mlxctl.protocols.extension_fields import ExtensionFields
from mlxctl.protocols.openai.agents.turns import parse_turn
from mlxctl.server.http.route import Operation, Route
from mlxctl.server.routes import all_routes

from .scripts import PLAIN, USAGE

HELLO = [{"role": "user", "content": "Hi"}]
BODIES: dict[str, dict[str, Any]] = {
    "chat": {"model": "m", "messages": HELLO},
    "completions": {"model": "m", "prompt": "Hi"},
    "responses": {"model": "m", "input": "Hi"},
    "messages": {"model": "m", "messages": HELLO, "max_tokens": 4},
    "lm_studio_chat": {"model": "m", "input": "Hi"},
    "lm_studio_v0_chat": {"model": "m", "messages": HELLO},
    "lm_studio_v0_completions": {"model": "m", "prompt": "Hi"},
    "llama_completion": {"prompt": "Hi"},
    "llama_infill": {"input_prefix": "a", "input_suffix": "b"},
    "ollama_chat": {"model": "m", "messages": HELLO},
    "ollama_generate": {"model": "m", "prompt": "Hi"},
}
DIALECTS = pytest.mark.parametrize("dialect", BODIES)
WRONG: dict[str, tuple[Any, ...]] = {
    "session_id": ("", 7),
    "cache_mode": ("sometimes",),
    "cache_salt": ("", 7),
    "ttl": (-1, "1h"),
    "adapter": ("", 7),
    "lora": ("sql", [{"scale": 1}]),
    "priority": (-101, 101, 1.5, "high", True),
    "speculation": ("no",),
    "context_overflow": ("shrink",),
}
NOT_EXTENDED = {
    "/v1/agents": "creates an agent; its turns have the fields",
    "/v1/agents/{agent_id}": "changes an agent",
    "/detokenize": "takes tokens and runs no prompt",
}


def parse(dialect: str, **fields: Any) -> GenerationRequest:
    return PROTOCOLS[dialect].parse_alone(json.dumps(BODIES[dialect] | fields).encode())


@DIALECTS
def test_every_dialect_honors_the_fields(dialect: str) -> None:
    plain = parse(dialect)
    given = parse(
        dialect,
        session_id="work",
        cache_mode="prefix",
        cache_salt="team",
        adapter="a+b",
        speculation=False,
        context_overflow="compact",
    )

    assert plain.cache == CacheOptions()
    assert (plain.adapters, plain.context_overflow, plain.sampling.speculation) == (None, None, None)
    assert given.cache == CacheOptions(mode="prefix", salt="team", session_id="work")
    assert given.adapters == (LoraChoice(name="a"), LoraChoice(name="b"))
    assert (given.context_overflow, given.sampling.speculation) == ("compact", False)
    assert parse(dialect, lora=[{"name": "a", "scale": 2}]).adapters == (LoraChoice(name="a", scale=2),)


@DIALECTS
def test_priority_is_that_of_vllm(dialect: str) -> None:
    assert parse(dialect).priority is None
    assert parse(dialect, priority=-7).priority == -7


@DIALECTS
def test_ttl_is_that_of_the_cache_except_where_lm_studio_has_its_own(dialect: str) -> None:
    request = parse(dialect, ttl=90)

    is_idle_time = dialect.startswith("lm_studio")
    assert request.cache.ttl_seconds == (None if is_idle_time else 90)
    assert request.keep_alive == (KeepAlive(seconds=90, new_only=True) if is_idle_time else None)


@DIALECTS
@pytest.mark.parametrize("field", WRONG)
def test_wrong_value_is_refused_by_name(dialect: str, field: str) -> None:
    for value in WRONG[field]:
        with pytest.raises(InvalidRequest) as refused:
            parse(dialect, **{field: value})
        assert str(refused.value.param).startswith(field)


@DIALECTS
def test_adapter_and_lora_exclude_each_other(dialect: str) -> None:
    with pytest.raises(InvalidRequest, match="use one of them"):
        parse(dialect, adapter="a", lora=[{"name": "b"}])


@DIALECTS
def test_answer_has_the_model_that_is_set(dialect: str) -> None:
    _, shape = PROTOCOLS[dialect].parse(json.dumps(BODIES[dialect]).encode())
    encoder = PROTOCOLS[dialect].create_encoder(shape)
    encoder.start(AnswerStart(model="the real one", sampling=SamplingParams()))

    stream = encoder.begin(USAGE) + b"".join(map(encoder.on_event, PLAIN))
    names_none = dialect == "sglang"
    assert (b"the real one" in stream) != names_none
    assert b'"model":"m"' not in stream


def test_ttl_precedes_the_cache_breakpoints_of_messages() -> None:
    marked = {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    request = parse("messages", system=[marked], messages=[{"role": "user", "content": [marked]}], ttl=0)
    assert request.cache == CacheOptions(ttl_seconds=0)


def test_truncation_of_responses_stays_without_the_field() -> None:
    assert parse("responses", truncation="auto").context_overflow == "drop_oldest"
    assert parse("responses", truncation="auto", context_overflow="error").context_overflow == "error"


def test_llama_cpp_turns_the_cache_off_with_its_own_field() -> None:
    assert parse("llama_completion", cache_prompt=False).cache.mode == "off"
    assert parse("llama_completion", cache_prompt=False, cache_mode="prefix").cache.mode == "prefix"


def test_token_count_takes_the_fields_and_looks_up_adapters() -> None:
    body = {"model": "m", "messages": HELLO, "adapter": "a", "cache_mode": "off"}
    assert parse_count_tokens(json.dumps(body).encode()).adapters == (LoraChoice(name="a"),)
    with pytest.raises(InvalidRequest, match="cache_mode is 'sometimes'"):
        parse_count_tokens(json.dumps(body | {"cache_mode": "sometimes"}).encode())


def test_turn_of_an_agent_has_the_fields_of_a_chat() -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_turn(json.dumps({"messages": HELLO, "ttl": -1}).encode())
    assert refused.value.param == "ttl"


@pytest.mark.parametrize(
    ("route", "operation"),
    [
        pytest.param(route, operation, id=route.path)
        for route in all_routes()
        for operation in route.operations
        if route.access == "generate" and operation.takes_body and route.path not in NOT_EXTENDED
    ],
)
def test_every_body_of_a_generation_has_the_fields(route: Route, operation: Operation) -> None:
    assert operation.body is not None
    assert issubclass(operation.body, ExtensionFields), (
        f"derive the body of {route.path} from ExtensionFields, or say in NOT_EXTENDED why it needs none"
    )


def test_every_field_has_a_meaning_for_the_reference() -> None:
    fields = msgspec.json.schema_components([ExtensionFields])[1]["ExtensionFields"]["properties"]
    assert fields.keys() == WRONG.keys()
    assert [name for name, field in fields.items() if not field.get("description")] == []
