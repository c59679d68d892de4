"""Legacy completions on a real server."""

from typing import Any

import openai
import pytest

ASKED: dict[str, Any] = {"model": "tiny", "max_tokens": 12, "seed": 3, "temperature": 1}


def test_text_and_its_token_ids_are_continued_alike(openai_client: openai.OpenAI) -> None:
    text = openai_client.completions.create(**ASKED, prompt="Hi")
    assert text.usage is not None
    assert text.choices[0].finish_reason == "length"
    batch = openai_client.completions.create(**ASKED, prompt=["Hi", "Bye", "Hi"])
    assert [choice.index for choice in batch.choices] == [0, 1, 2]
    assert batch.choices[0].text == batch.choices[2].text == text.choices[0].text
    assert batch.choices[1].text != text.choices[0].text


def test_ids_are_continued_and_echoed_as_text(openai_client: openai.OpenAI) -> None:
    plain = openai_client.completions.create(**ASKED, prompt=[40, 41, 42])
    echoed = openai_client.completions.create(**ASKED, prompt=[[40, 41, 42]], echo=True)
    assert echoed.choices[0].text.endswith(plain.choices[0].text)
    assert len(echoed.choices[0].text) > len(plain.choices[0].text)
    assert plain.usage is not None
    assert plain.usage.prompt_tokens == 3


def test_streamed_echo_equals_the_whole_echo(openai_client: openai.OpenAI) -> None:
    body: dict[str, Any] = {**ASKED, "prompt": ["Once upon", "A time"], "n": 2, "echo": True}
    whole = openai_client.completions.create(**body)
    streamed = ["", "", "", ""]
    for chunk in openai_client.completions.create(**body, stream=True):
        for choice in chunk.choices:
            streamed[choice.index] += choice.text
    assert streamed == [choice.text for choice in whole.choices]
    assert [text[:9] for text in streamed[:2]] == ["Once upon"] * 2
    assert streamed[0] != streamed[1]


def test_logprobs_have_one_entry_per_token(openai_client: openai.OpenAI) -> None:
    choice = openai_client.completions.create(**ASKED, prompt="Hi", logprobs=2).choices[0]
    logprobs = choice.logprobs
    assert logprobs is not None
    assert "".join(logprobs.tokens or ()) == choice.text
    assert (
        len(logprobs.token_logprobs or ())
        == len(logprobs.text_offset or ())
        == len(logprobs.tokens or ())
        > 0
    )
    assert all(2 <= len(candidates) <= 3 for candidates in logprobs.top_logprobs or ())


@pytest.mark.parametrize("streams", [False, True])
def test_echoed_text_scores_equal_generated_scores(openai_client: openai.OpenAI, streams: bool) -> None:
    generated = openai_client.completions.create(**ASKED, prompt="Once upon", logprobs=2).choices[0]
    assert generated.logprobs is not None
    body: dict[str, Any] = {
        "model": "tiny",
        "prompt": "Once upon" + generated.text,
        "max_tokens": 0,
        "echo": True,
        "logprobs": 2,
    }
    if streams:
        choices = [
            choice
            for chunk in openai_client.completions.create(**body, stream=True)
            for choice in chunk.choices
        ]
        assert [choice.finish_reason for choice in choices] == [None, "length"]
    else:
        choices = openai_client.completions.create(**body).choices
    logprobs = choices[0].logprobs
    assert logprobs is not None
    assert choices[0].text == "".join(logprobs.tokens or ()) == body["prompt"]
    assert logprobs.token_logprobs is not None
    assert (logprobs.token_logprobs[0], logprobs.top_logprobs and logprobs.top_logprobs[0]) == (None, None)
    assert logprobs.tokens is not None
    assert logprobs.text_offset == [
        sum(map(len, logprobs.tokens[:place])) for place in range(len(logprobs.tokens))
    ]
    tail = len(generated.logprobs.tokens or ())
    assert logprobs.tokens[-tail:] == generated.logprobs.tokens
    assert logprobs.token_logprobs[-tail:] == pytest.approx(generated.logprobs.token_logprobs, abs=1e-3)


def test_lm_evaluation_harness_request_is_scored(openai_client: openai.OpenAI) -> None:
    """The body that lm-evaluation-harness sends.

    Several lists of ids, one token more, which is left out of the sum.
    """
    prompts = [[40, 41, 42, 43], [50, 51], [60]]
    answer = openai_client.completions.create(
        model="tiny", prompt=prompts, max_tokens=1, logprobs=1, echo=True, seed=1
    )
    for prompt, choice in zip(prompts, answer.choices, strict=True):
        assert choice.logprobs is not None
        scores, top = choice.logprobs.token_logprobs, choice.logprobs.top_logprobs
        assert scores is not None
        assert top is not None
        assert len(scores) == len(top) == len(prompt) + 1
        assert all(score is not None and score <= 0 for score in scores[1:])
        assert all(
            max(here.values()) >= score - 1e-6 for here, score in zip(top[1:], scores[1:], strict=True)
        )
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 3


def test_best_of_returns_the_likeliest(openai_client: openai.OpenAI) -> None:
    best = openai_client.completions.create(**ASKED, prompt="Hi", best_of=4)
    tried = openai_client.completions.create(**ASKED, prompt="Hi", n=4, logprobs=0)
    means = {
        choice.text: sum(scores) / len(scores)
        for choice in tried.choices
        if (scores := choice.logprobs.token_logprobs)
    }  # type: ignore[union-attr]
    assert [choice.text for choice in best.choices] == [max(means, key=lambda text: means[text])]


@pytest.mark.parametrize(
    ("prompt", "param"),
    [([10**6], "prompt"), ([[1], [10**6]], "prompt"), ("very long " * 40_000, "prompt"), ([[]], "prompt")],
)
def test_invalid_prompts_are_refused(openai_client: openai.OpenAI, prompt: Any, param: str) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        openai_client.completions.create(model="tiny", prompt=prompt)
    assert refused.value.param == param


def test_prompt_logprobs_are_the_scores_of_the_echo(openai_client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {**ASKED, "prompt": "Once upon", "max_tokens": 2}
    echoed = openai_client.completions.create(**asked, echo=True, logprobs=2).choices[0].logprobs
    scored = openai_client.completions.create(**asked, extra_body={"prompt_logprobs": 2}).choices[0]
    first, *positions = scored.model_dump()["prompt_logprobs"]
    assert echoed is not None
    found = [next(iter(candidates.values())) for candidates in positions]
    num_prompt_tokens = len(positions) + 1
    assert (first, scored.logprobs) == (None, None)
    assert [token["decoded_token"] for token in found] == (echoed.tokens or [])[1:num_prompt_tokens]
    assert [token["logprob"] for token in found] == (echoed.token_logprobs or [])[1:num_prompt_tokens]
    assert scored.text == "".join((echoed.tokens or [])[num_prompt_tokens:])


def test_prompt_is_cut_to_its_last_tokens(openai_client: openai.OpenAI) -> None:
    whole = openai_client.completions.create(**ASKED, prompt=[42, 43])
    cut = openai_client.completions.create(
        **ASKED, prompt=[40, 41, 42, 43], extra_body={"truncate_prompt_tokens": 2}
    )
    assert cut.choices[0].text == whole.choices[0].text
    assert cut.usage == whole.usage


def test_logprobs_name_tokens_by_id(openai_client: openai.OpenAI) -> None:
    ids = {"return_tokens_as_token_ids": True}
    logprobs = (
        openai_client.completions.create(**ASKED, prompt="Hi", logprobs=1, extra_body=ids).choices[0].logprobs
    )
    chat = openai_client.chat.completions.create(
        **ASKED,
        messages=[{"role": "user", "content": "Hi"}],
        logprobs=True,
        top_logprobs=1,
        extra_body=ids | {"prompt_logprobs": 0},
    )
    assert logprobs is not None
    assert chat.choices[0].logprobs is not None
    assert all(name.startswith("token_id:") for name in logprobs.tokens or ["none"])
    content = chat.choices[0].logprobs.content or []
    assert [token.token[:9] for token in content] == ["token_id:"] * 12
    assert len(chat.model_dump()["prompt_logprobs"]) == (chat.usage.prompt_tokens if chat.usage else 0)
