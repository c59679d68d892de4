"""Images in tool results, over all protocols."""

import shutil
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from mlxctl.probe.image_check import one_color_png
from tests import tiny_models

from .hosted import HostedServer, hosting

COLORS = {"Red.": (220, 30, 30), "Blue.": (30, 60, 220)}
QUESTION = "What color is this?"
# Shows results as text, but no images in them.
TEXT_RESULTS = """<s>
{%- if tools -%}[SYSTEM_PROMPT]{{- tools | tojson -}}[/SYSTEM_PROMPT]{%- endif -%}
{%- for message in messages -%}
  {%- if message.role == 'assistant' -%}
    {{- message.content -}}
    {%- for call in message.tool_calls or [] -%}
      {{- call.function.name ~ (call.function.arguments | tojson) -}}
    {%- endfor -%}
    {{- '</s>' -}}
  {%- elif message.role == 'tool' -%}{{- '[INST]Result: ' ~ message.content ~ '[/INST]' -}}
  {%- else -%}{{- '[INST]' ~ message.content ~ '[/INST]' -}}{%- endif -%}
{%- endfor -%}"""

Answered = tuple[str, int, int]
"""What was answered, the tokens of the prompt, and how many of these were known."""


@pytest.fixture(scope="module")
def model_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostedServer]:
    """A server for a two-template vision model and a text model."""
    moved = Path(
        shutil.copytree(tiny_models.trained("pixtral_colors"), tmp_path_factory.mktemp("models") / "moved")
    )
    (moved / "chat_template.jinja").write_text(TEXT_RESULTS)
    reader = str(tiny_models.model("endless"))
    with hosting(
        None, "--model", str(tiny_models.trained("pixtral_colors")), "--model", str(moved), "--model", reader
    ) as running:
        yield running


def post(model_server: HostedServer, route: str, body: dict[str, Any]) -> Any:
    answer = httpx.post(f"{model_server.url}{route}", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()


def png(answer: str) -> str:
    return b64encode(one_color_png(COLORS[answer])).decode()


def chat(*answers: str) -> dict[str, Any]:
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    for number, answer in enumerate(answers):
        call = {"id": f"call_{number}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        shown = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{png(answer)}"}}]
        messages += [
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{number}", "content": shown},
        ]
    return {"messages": messages, "temperature": 0, "max_tokens": 16}


def anthropic(*answers: str) -> dict[str, Any]:
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    for number, answer in enumerate(answers):
        source = {"type": "base64", "media_type": "image/png", "data": png(answer)}
        result = {
            "type": "tool_result",
            "tool_use_id": f"call_{number}",
            "content": [{"type": "image", "source": source}],
        }
        messages += [
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": f"call_{number}", "name": "look", "input": {}}],
            },
            {"role": "user", "content": [result]},
        ]
    return {"messages": messages, "temperature": 0, "max_tokens": 16}


def responses(*answers: str) -> dict[str, Any]:
    items: list[Any] = [{"role": "user", "content": QUESTION}]
    for number, answer in enumerate(answers):
        shown = {"type": "input_image", "image_url": f"data:image/png;base64,{png(answer)}", "detail": "auto"}
        items += [
            {"type": "function_call", "call_id": f"call_{number}", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": f"call_{number}", "output": [shown]},
        ]
    return {"input": items, "temperature": 0, "max_output_tokens": 16}


def ask_chat(model_server: HostedServer, model: str, *answers: str) -> Answered:
    answer = post(model_server, "/v1/chat/completions", chat(*answers) | {"model": model})
    usage = answer["usage"]
    return (
        answer["choices"][0]["message"]["content"],
        usage["prompt_tokens"],
        usage["prompt_tokens_details"]["cached_tokens"],
    )


def ask_anthropic(model_server: HostedServer, model: str, *answers: str) -> Answered:
    body = anthropic(*answers) | {"model": model}
    answer = post(model_server, "/v1/messages", body)
    num_known = answer["usage"]["cache_read_input_tokens"]
    num_prompt_tokens = answer["usage"]["input_tokens"] + num_known
    assert post(model_server, "/v1/messages/count_tokens", body)["input_tokens"] == num_prompt_tokens
    return answer["content"][0]["text"], num_prompt_tokens, num_known


def ask_responses(model_server: HostedServer, model: str, *answers: str) -> Answered:
    answer = post(model_server, "/v1/responses", responses(*answers) | {"model": model})
    usage = answer["usage"]
    return (
        answer["output"][0]["content"][0]["text"],
        usage["input_tokens"],
        usage["input_tokens_details"]["cached_tokens"],
    )


Ask = Callable[..., Answered]
PROTOCOLS = pytest.mark.parametrize("ask", [ask_chat, ask_anthropic, ask_responses])


@PROTOCOLS
@pytest.mark.parametrize("model", ["pixtral_colors", "moved"])
@pytest.mark.parametrize("answer", COLORS)
def test_tool_result_image_is_used(model_server: HostedServer, ask: Ask, model: str, answer: str) -> None:
    answered, num_prompt_tokens, _ = ask(model_server, model, answer)
    assert answered == answer
    assert num_prompt_tokens > 20, "the cells of the image are counted"


@PROTOCOLS
@pytest.mark.parametrize("model", ["pixtral_colors", "moved"])
def test_next_screenshot_reuses_cached_ones(model_server: HostedServer, ask: Ask, model: str) -> None:
    _, num_before, _ = ask(model_server, model, "Red.", "Red.")
    answered, _, num_known = ask(model_server, model, "Red.", "Red.", "Blue.")
    assert answered == "Blue."
    assert num_known >= num_before - 1


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("/v1/chat/completions", chat("Red.")),
        ("/v1/messages", anthropic("Red.")),
        ("/v1/responses", responses("Red.")),
    ],
)
def test_text_model_answers_beside_tool_result_images(
    model_server: HostedServer, route: str, body: dict[str, Any]
) -> None:
    answer = httpx.post(
        f"{model_server.url}{route}", json=body | {"model": tiny_models.model("endless").name}, timeout=60
    )
    assert answer.status_code == 200, answer.text
