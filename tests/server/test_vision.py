"""Images over HTTP with both SDKs, vision and text models."""

import json
import shutil
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest

from mlxctl.probe.image_check import one_color_png
from tests import tiny_models
from tests.tiny_models.audio_samples import noise

from .hosted import HostedServer, hosting

MODEL = "vision_model"
QWEN = "qwen2_5_vl_colors"
COLORS = {"Red.": (220, 30, 30), "Blue.": (30, 60, 220), "Yellow.": (240, 220, 40)}
QUESTION = "What color is this?"
STORY = "The sea is wide, and the hills are old. " * 4


@pytest.fixture(scope="module")
def model_server() -> Iterator[HostedServer]:
    """A server for vision models, one that hears, and a text model."""
    vision_model, *others = (
        str(tiny_models.trained("pixtral_colors")),
        str(tiny_models.trained(QWEN)),
        str(tiny_models.model("gemma4_seer")),
        str(tiny_models.model("endless")),
    )
    names = (word for other in others for word in ("--model", other))
    with hosting(None, "--model", vision_model, "--name", MODEL, *names) as running:
        yield running


@pytest.fixture(scope="module")
def reader(model_server: HostedServer) -> str:
    return str(tiny_models.model("endless").name)


@pytest.fixture(scope="module")
def openai_sdk(model_server: HostedServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{model_server.url}/v1", api_key="unused", max_retries=0, _strict_response_validation=True
    ) as client:
        yield client


@pytest.fixture(scope="module")
def anthropic_sdk(model_server: HostedServer) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(
        base_url=model_server.url, api_key="unused", max_retries=0, _strict_response_validation=True
    ) as client:
        yield client


def encoded(color: tuple[int, int, int]) -> str:
    return b64encode(one_color_png(color)).decode()


def num_prompt_tokens(message: anthropic.types.Message) -> int:
    """Return the length of the prompt, cached tokens included."""
    return message.usage.input_tokens + (message.usage.cache_read_input_tokens or 0)


def openai_messages(url: str) -> list[Any]:
    return [
        {
            "role": "user",
            "content": [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": QUESTION}],
        }
    ]


def anthropic_messages(color: tuple[int, int, int]) -> list[Any]:
    source = {"type": "base64", "media_type": "image/png", "data": encoded(color)}
    return [
        {"role": "user", "content": [{"type": "text", "text": QUESTION}, {"type": "image", "source": source}]}
    ]


@pytest.mark.parametrize("model", [MODEL, QWEN])
@pytest.mark.parametrize("answer", COLORS)
def test_data_url_image_is_used(openai_sdk: openai.OpenAI, answer: str, model: str) -> None:
    messages = openai_messages(f"data:image/png;base64,{encoded(COLORS[answer])}")
    whole = openai_sdk.chat.completions.create(model=model, messages=messages, temperature=0, max_tokens=16)
    assert whole.choices[0].message.content == answer
    assert whole.usage is not None
    assert whole.usage.prompt_tokens > 20, "its sixteen cells and the ends of its rows are counted"
    stream = openai_sdk.chat.completions.create(
        model=model, messages=messages, temperature=0, max_tokens=16, stream=True
    )
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == answer


@pytest.mark.parametrize("answer", COLORS)
def test_anthropic_image_is_used(anthropic_sdk: anthropic.Anthropic, answer: str) -> None:
    messages = anthropic_messages(COLORS[answer])
    message = anthropic_sdk.messages.create(model=MODEL, messages=messages, max_tokens=16)
    assert [block.text for block in message.content if block.type == "text"] == [answer]
    counted = anthropic_sdk.messages.count_tokens(model=MODEL, messages=messages)
    assert counted.input_tokens == num_prompt_tokens(message)


def test_responses_image_is_used(openai_sdk: openai.OpenAI) -> None:
    body: list[Any] = [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": QUESTION},
                {
                    "type": "input_image",
                    "image_url": f"data:image/png;base64,{encoded(COLORS['Red.'])}",
                    "detail": "auto",
                },
            ],
        }
    ]
    response = openai_sdk.responses.create(model=MODEL, input=body, temperature=0, max_output_tokens=16)
    assert response.output_text == "Red."


def test_answer_without_image_differs(openai_sdk: openai.OpenAI) -> None:
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    answer = openai_sdk.chat.completions.create(model=MODEL, messages=messages, temperature=0, max_tokens=32)
    assert answer.choices[0].message.content == "I see no picture."


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        (
            "https://example.org/image.png",
            r"without --fetch-images \(setting vision\.fetch_urls\)",
        ),
        ("file:///etc/passwd", "other URLs are not fetched"),
        ("data:image/png;base64,bm8gcGljdHVyZQ==", "not one of PNG, JPEG, WEBP, GIF"),
    ],
)
def test_remote_and_invalid_images_are_refused(openai_sdk: openai.OpenAI, url: str, problem: str) -> None:
    with pytest.raises(openai.BadRequestError, match=problem):
        openai_sdk.chat.completions.create(model=MODEL, messages=openai_messages(url), max_tokens=4)


def test_text_model_refuses_images(openai_sdk: openai.OpenAI, reader: str) -> None:
    messages = openai_messages(f"data:image/png;base64,{encoded((1, 2, 3))}")
    with pytest.raises(openai.BadRequestError, match="this model reads text only"):
        openai_sdk.chat.completions.create(model=reader, messages=messages, max_tokens=4)


def test_audio_is_heard_in_every_form(openai_sdk: openai.OpenAI, model_server: HostedServer) -> None:
    hearer = tiny_models.model("gemma4_seer").name
    data = b64encode(noise(1)).decode()
    sound = {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}
    forms: list[Any] = [sound, {"type": "audio_url", "audio_url": {"url": f"data:audio/x-wav;base64,{data}"}}]
    texts, counts = set(), set()
    for form in forms:
        answer = openai_sdk.chat.completions.create(
            model=hearer, messages=[{"role": "user", "content": [form]}], temperature=0, max_tokens=8
        )
        texts.add(answer.choices[0].message.content)
        counts.add(answer.usage.prompt_tokens if answer.usage else None)
    asked: list[Any] = [{"role": "user", "content": [sound]}]
    response = openai_sdk.responses.create(model=hearer, input=asked, temperature=0, max_output_tokens=8)
    assert texts == {response.output_text}
    assert counts == {response.usage and response.usage.input_tokens}
    cards = {card["id"]: card for card in httpx.get(f"{model_server.url}/v1/models").json()["data"]}
    assert (cards[hearer]["adapter"]["takes_audio"], cards[MODEL]["adapter"]["takes_audio"]) == (True, False)
    assert (cards[hearer]["supports_audio_input"], cards[MODEL]["supports_audio_input"]) == (True, False)
    # Only probing finds whether a model tells images, or frames, apart.
    assert (cards[MODEL]["supports_vision"], cards[MODEL]["supports_video"]) == (True, None)


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        (
            {"input_audio": {"data": "bm8gc291bmQ=", "format": "mp3"}},
            r"content\[0\]\.input_audio: file is no",
        ),
        ({"audio_url": {"url": "https://example.org/a.wav"}}, r"audio_url\.url must be a data URL"),
    ],
)
def test_bad_audio_is_named(openai_sdk: openai.OpenAI, part: dict[str, Any], problem: str) -> None:
    content: list[Any] = [{"type": next(iter(part)), **part}]
    with pytest.raises(openai.BadRequestError, match=problem):
        openai_sdk.chat.completions.create(
            model=tiny_models.model("gemma4_seer").name, messages=[{"role": "user", "content": content}]
        )


def test_model_with_broken_vision_is_served_as_text(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = Path(shutil.copytree(tiny_models.trained("pixtral_colors"), tmp_path / "squinting"))
    config = json.loads((model / "config.json").read_text())
    config["vision_config"]["hidden_size"] = 64
    (model / "config.json").write_text(json.dumps(config))
    with (
        hosting(model) as running,
        openai.OpenAI(base_url=f"{running.url}/v1", api_key="unused", max_retries=0) as client,
    ):
        question: list[Any] = [{"role": "user", "content": QUESTION}]
        answer = client.chat.completions.create(model="tiny", messages=question, temperature=0, max_tokens=32)
        shown = openai_messages(f"data:image/png;base64,{encoded((1, 2, 3))}")
        for _ in range(2):
            with pytest.raises(
                openai.BadRequestError, match=r"cannot take images \(its vision part cannot be loaded: "
            ):
                client.chat.completions.create(model="tiny", messages=shown, max_tokens=4)
        card = httpx.get(f"{running.url}/v1/models/tiny", timeout=60).json()
    assert answer.choices[0].message.content == "I see no picture."
    assert card["capabilities"]["image_input"] == {"supported": False}
    assert card["adapter"]["vision_problem"].startswith("its vision part cannot be loaded: ")
    assert caplog.text.count("model 'tiny' takes no images: its vision part cannot be loaded: ") == 1


def test_model_list_names_vision_models(
    anthropic_sdk: anthropic.Anthropic, model_server: HostedServer, reader: str
) -> None:
    models = {
        model["id"]: model for model in httpx.get(f"{model_server.url}/v1/models", timeout=60).json()["data"]
    }
    sees = {name: model["capabilities"]["image_input"]["supported"] for name, model in models.items()}
    hearer = tiny_models.model("gemma4_seer").name
    assert sees == {MODEL: True, QWEN: True, hearer: True, reader: False}
    assert models[MODEL]["kind"] == "vision"


def explained(model_server: HostedServer) -> dict[str, Any]:
    """Return the explanation of the last request."""
    answer = httpx.get(f"{model_server.url}/cache/explain", params={"last": 1}, timeout=60)
    (last,) = answer.raise_for_status().json()["explanations"]
    found: dict[str, Any] = last
    return found


def test_image_conversation_is_cached_in_the_next_turn(
    anthropic_sdk: anthropic.Anthropic, model_server: HostedServer
) -> None:
    messages = anthropic_messages(COLORS["Yellow."])
    first = anthropic_sdk.messages.create(model=MODEL, system=STORY, messages=messages, max_tokens=16)
    messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": "And now?"}]
    second = anthropic_sdk.messages.create(model=MODEL, system=STORY, messages=messages, max_tokens=16)

    num_seen_tokens = num_prompt_tokens(first) + first.usage.output_tokens
    # The last token may not have been computed any more.
    assert second.usage.cache_read_input_tokens in (num_seen_tokens - 1, num_seen_tokens)
    assert explained(model_server)["reason"] == "continued"


def test_different_image_shares_only_the_prefix_before_it(
    openai_sdk: openai.OpenAI, model_server: HostedServer
) -> None:
    for color in ("Red.", "Blue."):
        messages = openai_messages(f"data:image/png;base64,{encoded(COLORS[color])}")
        messages.insert(0, {"role": "system", "content": STORY})
        answer = openai_sdk.chat.completions.create(
            model=MODEL, messages=messages, temperature=0, max_tokens=4
        )

    found = explained(model_server)
    assert (found["reason"], found["divergence"]["place"]) == ("image_changed", "message 2 (user)")
    assert answer.usage is not None
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == found["divergence"]["position"] > 16
    assert found["divergence"]["before"].endswith("[INST]")


def test_leading_image_is_named_in_the_explanation(
    openai_sdk: openai.OpenAI, model_server: HostedServer
) -> None:
    for color in ((1, 90, 2), (90, 1, 2)):
        messages = openai_messages(f"data:image/png;base64,{encoded(color)}")
        openai_sdk.chat.completions.create(model=MODEL, messages=messages, max_tokens=4)

    found = explained(model_server)
    assert (found["reason"], found["num_cached_tokens"]) == ("image_changed", 0)


def test_image_of_another_size_is_a_miss(openai_sdk: openai.OpenAI, model_server: HostedServer) -> None:
    for side in (64, 32):
        data = b64encode(one_color_png((200, 100, 50), side=side)).decode()
        messages = [{"role": "system", "content": STORY}, *openai_messages(f"data:image/png;base64,{data}")]
        openai_sdk.chat.completions.create(model=MODEL, messages=messages, max_tokens=4)

    assert explained(model_server)["reason"] == "image_changed"
