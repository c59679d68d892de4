"""Legacy completions against a real server: text goes on where it stopped, whatever way it was given."""

from typing import Any

import openai
import pytest

ASKED: dict[str, Any] = {"model": "tiny", "max_tokens": 12, "seed": 3, "temperature": 1}


def test_text_and_its_token_ids_go_on_alike(openai_client: openai.OpenAI) -> None:
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


def test_an_echoed_stream_says_what_the_whole_says(openai_client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {**ASKED, "prompt": ["Once upon", "A time"], "n": 2, "echo": True}
    whole = openai_client.completions.create(**asked)
    said = ["", "", "", ""]
    for chunk in openai_client.completions.create(**asked, stream=True):
        for choice in chunk.choices:
            said[choice.index] += choice.text
    assert said == [choice.text for choice in whole.choices]
    assert [text[:9] for text in said[:2]] == ["Once upon"] * 2
    assert said[0] != said[1]


def test_log_probabilities_have_a_place_for_each_token(openai_client: openai.OpenAI) -> None:
    choice = openai_client.completions.create(**ASKED, prompt="Hi", logprobs=2).choices[0]
    logprobs = choice.logprobs
    assert logprobs is not None
    assert "".join(logprobs.tokens or ()) == choice.text
    assert len(logprobs.token_logprobs or ()) == len(logprobs.text_offset or ()) == len(logprobs.tokens or ()) > 0
    assert all(2 <= len(candidates) <= 3 for candidates in logprobs.top_logprobs or ())


def test_best_of_gives_out_the_likeliest(openai_client: openai.OpenAI) -> None:
    best = openai_client.completions.create(**ASKED, prompt="Hi", best_of=4)
    tried = openai_client.completions.create(**ASKED, prompt="Hi", n=4, logprobs=0)
    means = {choice.text: sum(scores) / len(scores) for choice in tried.choices if (scores := choice.logprobs.token_logprobs)}  # type: ignore[union-attr]
    assert [choice.text for choice in best.choices] == [max(means, key=lambda text: means[text])]


@pytest.mark.parametrize(
    ("prompt", "param"), [([10**6], "prompt"), ([[1], [10**6]], "prompt"), ("very long " * 40_000, "prompt"), ([[]], "prompt")]
)
def test_prompts_that_the_model_cannot_read(openai_client: openai.OpenAI, prompt: Any, param: str) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        openai_client.completions.create(model="tiny", prompt=prompt)
    assert refused.value.param == param
