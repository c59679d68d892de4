"""Explanations of cache misses name the change, its position and its size."""

from array import array
from dataclasses import replace
from itertools import zip_longest
from random import Random
from zlib import crc32

import pytest

from mlxctl.formats.adapters import ModelAdapter
from mlxctl.inference.cache.explanation import Explanation, explain
from mlxctl.inference.cache.recent_prompts import RecordedPrompt
from mlxctl.inference.preparation import PackedRequest
from mlxctl.ir import GenerationRequest, text_message
from mlxctl.ir.cache_usage import CacheUsage
from mlxctl.ir.errors import InvalidRequest
from tests.formats.adapters.families import CASES, adapter_for
from tests.inference.changed_requests import KINDS, Changed, changed_request, conversation

_TEMPLATES = ("qwen3", "llama3_1", "mistral_new", "gemma3", "gpt_oss", "lfm2", "deepseek_v3", "kimi_k2")


@pytest.fixture(scope="module")
def adapters(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ModelAdapter]:
    return {
        case.name: adapter_for(case, tmp_path_factory.mktemp(case.name))
        for case in CASES
        if case.name in _TEMPLATES
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("template", _TEMPLATES)
def test_difference_is_explained(kind: str, template: str, adapters: dict[str, ModelAdapter]) -> None:
    check(kind, adapters[template], Random(crc32(f"{kind} {template}".encode())))


def test_tokens_cached_from_a_third_request_are_named(adapters: dict[str, ModelAdapter]) -> None:
    random, adapter = Random(5), adapters["qwen3"]
    before, other = conversation(random, num_tools=0), conversation(random, num_tools=0)
    line = "Today is Monday, the 12th of June, and it is 10:15 in the morning in Lisbon.\n"
    after, with_line = (_with_head(request, line) for request in (before, other))
    earlier = [recorded(number, request, adapter) for number, request in enumerate((with_line, before), 1)]
    newest = recorded(3, after, adapter, earlier)

    found = explain(newest, earlier, adapter)

    assert found.compared_with == 2
    assert found.divergence is not None
    assert found.num_cached_tokens > found.divergence.position
    assert (
        f"{found.num_cached_tokens} tokens were cached from requests that begin like this" in found.sentence
    )
    assert "nothing could be reused" not in found.sentence
    alone = explain(recorded(3, after, adapter, earlier[1:]), earlier[1:], adapter)
    assert "nothing could be reused" in alone.sentence


def _with_head(request: GenerationRequest, line: str) -> GenerationRequest:
    head = text_message("system", line + request.messages[0].text)
    return replace(request, messages=(head, *request.messages[1:]))


def check(kind: str, adapter: ModelAdapter, random: Random) -> None:
    """Explain one difference among unrelated requests, and compare with the change."""
    changed = changed_request(kind, random)
    unrelated = [conversation(random) for _ in range(2)]
    try:
        earlier = [
            recorded(number, request, adapter)
            for number, request in enumerate((unrelated[0], changed.before, unrelated[1]), 1)
        ]
        newest = recorded(4, changed.after, adapter, earlier)
    except InvalidRequest:
        return  # The template rejects this conversation.

    found = explain(newest, earlier, adapter)

    before = earlier[1]
    if before.prompt_ids == newest.prompt_ids:
        assert found.reason == "all_known"
        return
    assert changed.reason is not None
    assert found.compared_with == 2
    assert_right(found, changed, before, newest, adapter)


def recorded(
    number: int,
    request: GenerationRequest,
    adapter: ModelAdapter,
    earlier: list[RecordedPrompt] | None = None,
) -> RecordedPrompt:
    """Return a recorded prompt that reused everything of the `earlier` ones."""
    ids = array("I", adapter.prompt_tokens(request).token_ids)
    num_matched = max((common(ids, other.prompt_ids) for other in earlier or ()), default=0)
    num_cached = min(num_matched, len(ids) - 1) if num_matched >= 16 else 0
    return RecordedPrompt(
        number=number,
        at=0.0,
        model="small",
        packed=PackedRequest.of(request),
        num_prompt_tokens=len(ids),
        prompt_ids=ids,
        num_engine_restarts=0,
        cache_usage=CacheUsage(num_matched_tokens=num_matched, num_cached_tokens=num_cached),
    )


def assert_right(
    found: Explanation,
    changed: Changed,
    before: RecordedPrompt,
    newest: RecordedPrompt,
    adapter: ModelAdapter,
) -> None:
    divergence = found.divergence
    assert divergence is not None
    position = common(newest.prompt_ids, before.prompt_ids)
    assert divergence.position == position
    assert divergence.tool == changed.tool
    assert divergence.message in (changed.message, changed.or_message)
    is_head = position < 16 and changed.reason == "message_changed"
    assert found.reason == ("head_changed" if is_head else changed.reason)
    if changed.part is not None:
        assert divergence.part == changed.part
    assert changed.new in divergence.before.rsplit(" ", 1)[-1] + divergence.here
    assert changed.old in divergence.before.rsplit(" ", 1)[-1] + divergence.there
    num_received, num_there = len(newest.prompt_ids) - position, len(before.prompt_ids) - position
    num_end = min(common(newest.prompt_ids[::-1], before.prompt_ids[::-1]), num_received, num_there)
    assert num_end <= divergence.num_same_later_tokens <= num_received
    if changed.is_one_run:
        assert divergence.num_same_later_tokens == num_end
        assert divergence.num_changed_tokens == num_received - num_end
        assert divergence.num_replaced_tokens == num_there - num_end


def common(one: "array[int]", other: "array[int]") -> int:
    pairs = enumerate(zip_longest(one, other))
    return next((index for index, (first, second) in pairs if first != second), len(one))
