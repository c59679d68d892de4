"""Fields of vLLM in chat completions and completions, with OpenAI's SDK."""

import json
from collections.abc import Iterator

import httpx
import openai
import pytest

from mlxctl import __version__
from mlxctl.library import demo

from .process import ServerProcess

MODEL = "mlxctl-demo"
HELLO = [{"role": "user", "content": "Hello!"}]
CHAT = {"model": MODEL, "messages": HELLO, "temperature": 0, "max_tokens": 60}
TURN = "<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n"
TEXT = {"model": MODEL, "prompt": TURN, "temperature": 0, "max_tokens": 60}


@pytest.fixture(scope="module")
def client(demo_server: ServerProcess) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{demo_server.url}/v1", api_key="unused", max_retries=0) as opened:
        yield opened


def text_of(client: openai.OpenAI, token_ids: list[int]) -> str:
    body = {"model": MODEL, "tokens": token_ids}
    return str(client.post("/detokenize", body=body, cast_to=dict)["prompt"])


def test_chat_returns_token_ids_of_prompt_and_answer(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(**CHAT, extra_body={"return_token_ids": True}).model_dump()
    token_ids = whole["choices"][0]["token_ids"]
    assert len(token_ids) == whole["usage"]["completion_tokens"]
    assert whole["choices"][0]["message"]["content"] in text_of(client, token_ids)
    assert "Hello!" in text_of(client, whole["prompt_token_ids"])


@pytest.mark.parametrize("options", [{}, {"logprobs": True}, {"stop": ["can"]}, {"n": 2}])
def test_token_ids_of_chunks_are_those_of_the_whole_chat(
    client: openai.OpenAI, options: dict[str, object]
) -> None:
    extra = {"return_token_ids": True, **options}
    whole = client.chat.completions.create(**CHAT, extra_body=extra).model_dump()
    chunks = [
        chunk.model_dump() for chunk in client.chat.completions.create(**CHAT, stream=True, extra_body=extra)
    ]
    for number, choice in enumerate(whole["choices"]):
        choices = [part for chunk in chunks for part in chunk["choices"] if part["index"] == number]
        ids = [token_id for part in choices for token_id in part.get("token_ids") or ()]
        assert ids == choice["token_ids"]
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert chunks[0]["prompt_token_ids"] == whole["prompt_token_ids"]


def test_completions_return_token_ids(client: openai.OpenAI) -> None:
    extra = {"return_token_ids": True}
    whole = client.completions.create(**TEXT, extra_body=extra).choices[0].model_dump()
    chunks = client.completions.create(**TEXT, stream=True, extra_body=extra)
    choices = [choice.model_dump() for chunk in chunks for choice in chunk.choices]
    assert text_of(client, whole["prompt_token_ids"]) == TURN
    assert [token_id for choice in choices for token_id in choice["token_ids"]] == whole["token_ids"]


@pytest.mark.parametrize("kind", ["chat", "text"])
def test_every_chunk_counts_the_tokens_so_far(client: openai.OpenAI, kind: str) -> None:
    options = {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
    chunks = list(
        client.chat.completions.create(**CHAT, **options)
        if kind == "chat"
        else client.completions.create(**TEXT, **options)
    )
    counts = [chunk.usage.completion_tokens for chunk in chunks]
    assert counts == sorted(counts)
    assert len(set(counts)) > 4
    assert {chunk.usage.prompt_tokens for chunk in chunks} == {chunks[-1].usage.prompt_tokens}
    assert chunks[-2].usage.total_tokens == chunks[-1].usage.total_tokens


def test_no_chunk_counts_tokens_without_include_usage(client: openai.OpenAI) -> None:
    chunks = client.completions.create(**TEXT, stream=True, stream_options={"continuous_usage_stats": True})
    assert {chunk.usage for chunk in chunks} == {None}


def test_stop_token_ids_end_the_answer(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(**CHAT, extra_body={"return_token_ids": True}).model_dump()
    token_ids = whole["choices"][0]["token_ids"]
    stop = token_ids[-2]
    stopped = client.chat.completions.create(
        **CHAT, extra_body={"stop_token_ids": [stop], "return_token_ids": True, "ignore_eos": True}
    ).model_dump()
    assert stopped["choices"][0]["finish_reason"] == "stop"
    assert stopped["choices"][0]["token_ids"] == token_ids[: token_ids.index(stop) + 1]


def test_truncation_side_chooses_the_end_of_the_prompt_that_is_used(client: openai.OpenAI) -> None:
    extra = {"truncate_prompt_tokens": 2, "return_token_ids": True}
    prompt = client.post("/tokenize", body={"content": "Hello you and me"}, cast_to=dict)["tokens"]
    for side, used in (("left", prompt[-2:]), ("right", prompt[:2])):
        body = TEXT | {"prompt": "Hello you and me"}
        answer = client.completions.create(**body, extra_body=extra | {"truncation_side": side})
        assert answer.choices[0].model_dump()["prompt_token_ids"] == used


@pytest.mark.parametrize("stream", [False, True])
def test_echo_puts_the_continued_message_before_the_answer(client: openai.OpenAI, stream: bool) -> None:
    messages = [*HELLO, {"role": "assistant", "content": "Hello! How can"}]
    body = CHAT | {"messages": messages}
    extra = {"continue_final_message": True, "think": False}
    rest = client.chat.completions.create(**body, extra_body=extra).choices[0].message.content
    answer = client.chat.completions.create(**body, stream=stream, extra_body=extra | {"echo": True})
    if stream:
        text = "".join(chunk.choices[0].delta.content or "" for chunk in answer)
    else:
        text = answer.choices[0].message.content
    assert text == f"Hello! How can{rest}"


def test_texts_and_lists_of_token_ids_are_prompts_of_one_request(client: openai.OpenAI) -> None:
    ids = client.post("/tokenize", body={"content": "Hello you"}, cast_to=dict)["tokens"]
    both = client.completions.create(**TEXT | {"prompt": ["Hello you", ids]})
    assert both.choices[0].text == both.choices[1].text
    with pytest.raises(openai.BadRequestError, match=r"prompt\[1\] is a token id among texts"):
        client.completions.create(**TEXT | {"prompt": ["Hello you", ids[0]]})


def test_tokenizer_info_is_that_of_the_models_files(client: openai.OpenAI) -> None:
    root = str(client.base_url).removesuffix("/v1/")
    found = httpx.get(f"{root}/tokenizer_info", params={"model": MODEL}).json()
    stored = json.loads((demo.MODEL_DIR / "tokenizer_config.json").read_text())
    assert found == stored | {"chat_template": (demo.MODEL_DIR / "chat_template.jinja").read_text()}
    assert httpx.get(f"{root}/tokenizer_info", params={"model": "none"}).status_code == 404


def test_version_is_the_packages(client: openai.OpenAI) -> None:
    assert httpx.get(str(client.base_url).replace("/v1/", "/version")).json()["version"] == __version__


@pytest.mark.parametrize(
    ("field", "harmless", "value"),
    [
        ("bad_words", [], ["no"]),
        ("allowed_token_ids", None, [1]),
        ("include_stop_str_in_output", False, True),
        ("skip_special_tokens", True, False),
        ("use_beam_search", False, True),
        ("logits_processors", None, ["a"]),
        ("chat_template", None, "{{ messages }}"),
        ("documents", [], [{"text": "a"}]),
    ],
)
def test_fields_that_cannot_be_honored_are_refused_by_name(
    client: openai.OpenAI, field: str, harmless: object, value: object
) -> None:
    for create, body in ((client.chat.completions.create, CHAT), (client.completions.create, TEXT)):
        assert create(**body | {"max_tokens": 1}, extra_body={field: harmless}).choices
        with pytest.raises(openai.BadRequestError, match=f"{field} is not supported") as refused:
            create(**body, extra_body={field: value})
        assert refused.value.param == field
