"""The Responses API on a real server: chains, stored responses and events."""

import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from .hosted import HostedServer, hosting
from .process import ServerProcess

CONTEXT_LENGTH = 1024
ASKED: dict[str, Any] = {"model": "tiny", "max_output_tokens": 12, "temperature": 0}


def items_of(client: openai.OpenAI, response_id: str) -> list[str]:
    """Return one line for each input item of a response."""
    items = client.responses.input_items.list(response_id, order="asc")
    return [f"{item.role}: {item.content[0].text}" for item in items]  # type: ignore[union-attr]


def test_stream_equals_the_whole_response(openai_client: openai.OpenAI) -> None:
    whole = openai_client.responses.create(**ASKED, input="Say something.")
    events = list(openai_client.responses.create(**ASKED, input="Say something.", stream=True))
    assert whole.status == "incomplete"
    assert (
        "".join(event.delta for event in events if event.type == "response.output_text.delta")
        == whole.output_text
        != ""
    )
    assert events[-1].type == "response.incomplete"
    assert whole.usage is not None
    assert whole.usage.output_tokens == 12
    assert [event.sequence_number for event in events] == list(range(len(events)))


def test_response_chain_equals_its_items(openai_client: openai.OpenAI) -> None:
    first = openai_client.responses.create(**ASKED, input="One", instructions="Be brief.")
    chained = openai_client.responses.create(**ASKED, input="Two", previous_response_id=first.id)
    items: list[Any] = [{"role": "user", "content": "One"}, *first.output, {"role": "user", "content": "Two"}]
    sent = openai_client.responses.create(**ASKED, input=items)
    referring: list[Any] = [items[0], {"type": "item_reference", "id": first.output[0].id}, items[2]]
    referred = openai_client.responses.create(**ASKED, input=referring)
    assert chained.usage is not None
    assert sent.usage is not None
    assert chained.usage.input_tokens == sent.usage.input_tokens
    assert chained.output_text == sent.output_text == referred.output_text
    assert chained.previous_response_id == first.id


def test_streamed_response_can_be_continued_at_once(openai_client: openai.OpenAI) -> None:
    previous: str | None = None
    for turn in range(4):
        body: dict[str, Any] = {**ASKED, "input": f"Turn {turn}"} | (
            {"previous_response_id": previous} if previous else {}
        )
        *_, last = openai_client.responses.create(**body, stream=True)
        assert last.type == "response.incomplete"
        previous = last.response.id
    assert previous is not None
    stored_items = items_of(openai_client, previous)
    assert [line for line in stored_items if line.startswith("user")] == [
        f"user: Turn {turn}" for turn in range(4)
    ]
    assert len(stored_items) == 7


def test_stored_response_is_returned_until_deleted(openai_client: openai.OpenAI) -> None:
    response = openai_client.responses.create(**ASKED, input="Keep me")
    assert openai_client.responses.retrieve(response.id) == response
    openai_client.responses.delete(response.id)
    for use in (
        openai_client.responses.retrieve,
        openai_client.responses.delete,
        openai_client.responses.cancel,
    ):
        with pytest.raises(openai.NotFoundError):
            use(response.id)
    with pytest.raises(openai.NotFoundError):
        openai_client.responses.input_items.list(response.id)
    with pytest.raises(openai.BadRequestError) as broken:
        openai_client.responses.create(**ASKED, input="Go on", previous_response_id=response.id)
    assert broken.value.code == "previous_response_not_found"


def test_store_false_stores_nothing(openai_client: openai.OpenAI) -> None:
    response = openai_client.responses.create(**ASKED, input="Forget me", store=False)
    with pytest.raises(openai.NotFoundError):
        openai_client.responses.retrieve(response.id)


def test_cancellation_is_refused(openai_client: openai.OpenAI) -> None:
    response = openai_client.responses.create(**ASKED, input="Hi")
    with pytest.raises(openai.BadRequestError, match="background"):
        openai_client.responses.cancel(response.id)


def test_input_items_are_listed_in_pages(openai_client: openai.OpenAI) -> None:
    items: list[Any] = [{"role": "user", "content": str(number)} for number in range(7)]
    response = openai_client.responses.create(**ASKED, input=items)
    page = openai_client.responses.input_items.list(response.id, limit=3)
    assert page.has_more
    assert [item.content[0].text for item in page.data] == ["6", "5", "4"]  # type: ignore[union-attr]
    assert len(list(page)) == 7


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=x", "limit"),
        ("order=up", "order"),
        ("after=nothing", "after"),
    ],
)
def test_invalid_page_parameters_are_refused_by_name(server: ServerProcess, query: str, param: str) -> None:
    response = httpx.post(f"{server.url}/v1/responses", json={**ASKED, "input": "Hi"}, timeout=30).json()
    refused = httpx.get(f"{server.url}/v1/responses/{response['id']}/input_items?{query}")
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)


def test_empty_warm_up_request_is_answered(server: ServerProcess) -> None:
    answer = httpx.post(
        f"{server.url}/v1/responses", json={"model": "tiny", "input": "", "max_output_tokens": 1}, timeout=30
    )
    assert answer.status_code == 200


def test_response_repeats_the_final_sampling(openai_client: openai.OpenAI) -> None:
    response = openai_client.responses.create(model="tiny", input="Hi", max_output_tokens=1)
    assert response.temperature == 0.3
    assert response.top_p == 1.0


def test_long_input_error_names_the_input_field(openai_client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as too_long:
        openai_client.responses.create(model="tiny", input="very long " * 40_000, stream=True)
    assert (too_long.value.code, too_long.value.param) == ("context_length_exceeded", "input")


@pytest.fixture(scope="module")
def shared(endless_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostedServer]:
    """A server with two keys, short context and small response store."""
    model = tmp_path_factory.mktemp("models") / "short"
    shutil.copytree(endless_model, model)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"max_position_embeddings": CONTEXT_LENGTH}))
    limits = {"MLXCTL_SERVER_API_KEYS": "ann,bob", "MLXCTL_SERVER_RESPONSE_STORE_BYTES": "20000"}
    with hosting(model, **limits) as running:
        yield running


def ask(server: HostedServer, key: str, **more: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}"}
    return httpx.post(
        f"{server.url}/v1/responses", json={**ASKED, "input": "Hi", **more}, headers=headers, timeout=30
    )


def test_other_keys_do_not_find_the_response(shared: HostedServer) -> None:
    response_id = ask(shared, "ann").json()["id"]
    foreign = httpx.get(f"{shared.url}/v1/responses/{response_id}", headers={"x-api-key": "bob"})
    own = httpx.get(f"{shared.url}/v1/responses/{response_id}", headers={"x-api-key": "ann"})
    assert (foreign.status_code, own.status_code) == (404, 200)
    assert ask(shared, "bob", previous_response_id=response_id).status_code == 400


def test_old_responses_are_evicted_and_counted(shared: HostedServer) -> None:
    with ThreadPoolExecutor(4) as pool:
        ids = [answer.json()["id"] for answer in pool.map(lambda _: ask(shared, "ann"), range(30))]
    kept = httpx.get(f"{shared.url}/stats", headers={"x-api-key": "ann"}).json()["responses"]
    assert 0 < kept["num_bytes"] <= 20_000
    assert 0 < kept["num_responses"] < 30
    assert httpx.get(f"{shared.url}/v1/responses/{ids[0]}", headers={"x-api-key": "ann"}).status_code == 404


def test_auto_truncation_drops_the_oldest_turns(shared: HostedServer) -> None:
    turns = [{"role": "user", "content": f"Turn {number}: " + "very long " * 20} for number in range(20)]
    refused = ask(shared, "ann", input=turns)
    answer = ask(shared, "ann", input=turns, truncation="auto").json()
    too_long = ask(shared, "ann", input="very long " * 500, truncation="auto")
    assert refused.json()["error"]["code"] == "context_length_exceeded"
    assert answer["truncation"] == "auto"
    assert (
        CONTEXT_LENGTH // 2 < answer["usage"]["input_tokens"] <= CONTEXT_LENGTH - ASKED["max_output_tokens"]
    )
    assert too_long.json()["error"]["code"] == "context_length_exceeded"
