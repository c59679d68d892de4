"""Legacy completions: prompts, candidates and log probabilities."""

import json
from dataclasses import replace
from typing import Any

import pytest

from mlxctl.ir import GenerationRequest, Message, TextPart, TextResult, TokenLogprob, Usage
from mlxctl.ir.errors import ContextTooLong, InvalidRequest
from mlxctl.protocols import PROTOCOLS, openai_error

from .scripts import completion


def parse(**fields: Any) -> GenerationRequest:
    return PROTOCOLS["completions"].parse_alone(
        json.dumps({"model": "tiny", "prompt": "Once"} | fields).encode()
    )


def scored(*words: tuple[str, float]) -> TextResult:
    """Return an answer whose tokens are these words with these log probabilities."""
    logprobs = tuple(
        TokenLogprob(token_id=index, token=word, data=word.encode(), logprob=logprob)
        for index, (word, logprob) in enumerate(words)
    )
    text = "".join(word for word, _ in words)
    usage = Usage(num_prompt_tokens=3, num_completion_tokens=len(words))
    return TextResult(
        message=Message(role="assistant", parts=(TextPart(text=text),)),
        reason="stop",
        usage=usage,
        logprobs=logprobs,
    )


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        ("Once", ("Once",)),
        ("", ("",)),
        (["Once", "Twice"], ("Once", "Twice")),
        ([5, 6], ((5, 6),)),
        ([[5, 6], [7]], ((5, 6), (7,))),
    ],
)
def test_prompt_accepts_four_shapes(prompt: object, prompts: tuple[object, ...]) -> None:
    asked = parse(prompt=prompt)
    assert asked.prompts == prompts
    assert asked.messages == ()


@pytest.mark.parametrize(("max_tokens", "limits"), [(None, (None, 16)), (5, (5, 16)), (-1, (None, None))])
def test_max_tokens_of_minus_1_is_no_limit(
    max_tokens: int | None, limits: tuple[int | None, int | None]
) -> None:
    asked = parse(max_tokens=max_tokens)
    assert (asked.max_tokens, asked.default_max_tokens) == limits


def test_echoed_prompt_is_scored_with_logprobs() -> None:
    asked = parse(echo=True, logprobs=1, max_tokens=0)
    assert (asked.echo, asked.scores_prompt, asked.max_tokens, asked.sampling.num_top_logprobs) == (
        True,
        True,
        0,
        1,
    )
    assert not parse(logprobs=1).scores_prompt
    assert not parse(echo=True, best_of=2).scores_prompt


def test_first_prompt_token_has_no_logprob() -> None:
    better = scored(("O", 0.0), ("n", -9.0), ("c", -9.0), ("a", -1.0))
    first = replace(better.logprobs[0], logprob=None)
    better = replace(better, logprobs=(first, *better.logprobs[1:]))
    worse = scored(("O", 0.0), ("n", -9.0), ("c", -9.0), ("b", -2.0), ("c", -2.0))
    encoder = completion(echo=True, logprobs=0, best_of=2)
    (choice,) = json.loads(encoder.whole(worse, better))["choices"]
    assert choice["text"] == "Onca"
    assert choice["logprobs"]["token_logprobs"] == [None, -9.0, -9.0, -1.0]
    assert choice["logprobs"]["top_logprobs"][:2] == [None, {"n": -9.0}]


def test_best_of_sets_the_number_of_candidates() -> None:
    assert parse(n=2).num_choices == 2
    assert parse(n=2, best_of=5).num_choices == 5
    assert parse(best_of=5).sampling.num_top_logprobs == 0
    assert parse(best_of=1).sampling.num_top_logprobs is None
    assert parse(best_of=5, logprobs=3).sampling.num_top_logprobs == 3


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"suffix": ".", "prompt": [1, 2]}, "suffix"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"n": 3, "best_of": 2}, "best_of"),
        ({"best_of": 2, "stream": True}, "best_of"),
        ({"prompt": ["Once", "Twice"], "n": 65}, "prompt"),
    ],
)
def test_unsupported_fields_are_refused_by_name(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(**fields)
    assert caught.value.param == param
    assert str(caught.value).startswith(param)


def test_empty_suffix_and_streamed_n_are_accepted() -> None:
    assert parse(suffix="", n=2, best_of=2, stream=True).stream


def test_best_candidates_are_returned_best_first() -> None:
    encoder = completion(n=2, best_of=4)
    tried = (scored(("dull", -3.0)), scored(), scored(("a", -0.5), ("b", -1.5)), scored(("sure", -0.1)))
    answer = json.loads(encoder.whole(*tried))
    assert [(choice["index"], choice["text"]) for choice in answer["choices"]] == [(0, "sure"), (1, "ab")]
    assert answer["choices"][0]["logprobs"] is None
    assert answer["usage"]["completion_tokens"] == 4
    assert answer["usage"]["prompt_tokens"] == 3


def test_choices_are_numbered_by_prompt_and_each_prompt_counts() -> None:
    encoder = completion(prompt=["Once", "Twice"], n=2)
    answer = json.loads(encoder.whole(*(scored((word, -1.0)) for word in "abcd")))
    assert [(choice["index"], choice["text"]) for choice in answer["choices"]] == [
        (0, "a"),
        (1, "b"),
        (2, "c"),
        (3, "d"),
    ]
    assert answer["usage"]["prompt_tokens"] == 6


def test_offsets_count_characters_split_over_tokens() -> None:
    pieces = [b"a\xc3", b"\xa9", b"b"]
    logprobs = tuple(
        TokenLogprob(token_id=index, token=data.decode("utf-8", "replace"), data=data, logprob=-1.0)
        for index, data in enumerate(pieces)
    )
    result = TextResult(
        message=Message(role="assistant", parts=(TextPart(text="aéb"),)),
        reason="stop",
        usage=Usage(num_prompt_tokens=1),
        logprobs=logprobs,
    )
    legacy = json.loads(completion(logprobs=0).whole(result))["choices"][0]["logprobs"]
    assert legacy["text_offset"] == [0, 2, 2]
    assert legacy["top_logprobs"][2] == {"b": -1.0}


def test_stream_starts_with_the_first_text() -> None:
    assert completion().begin(Usage(num_prompt_tokens=3)) == b""


def test_long_prompt_error_names_the_prompt_field() -> None:
    error = ContextTooLong(num_prompt_tokens=9, context_length=8)
    assert json.loads(openai_error(error, prompt_field="prompt").body)["error"]["param"] == "prompt"
