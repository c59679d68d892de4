"""Images in tool results: in place, or after the results."""

import io
import re
import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import given
from hypothesis import settings as checks
from hypothesis import strategies as st
from PIL import Image

from mlxctl.formats.adapters import ModelAdapter, create_adapter
from mlxctl.ir import (
    AudioPart,
    GenerationRequest,
    ImagePart,
    Message,
    RemoteImagePart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    text_message,
)
from mlxctl.ir.errors import InvalidRequest
from mlxctl.library import read_model
from tests import tiny_models

_CALLS = (
    "{%- for call in message.tool_calls or [] %}[TOOL_CALL]{{ call.function.name }} {{ "
    "call.function.arguments | tojson }}"
    "{%- endfor -%}"
)
_WHOLE = (
    "<s>{%- if tools -%}[TOOLS]{{- tools | tojson -}}{%- endif -%}"
    "{%- for message in messages -%}{%- if message.role == 'assistant' -%}{CALLS}{{- message.content ~ "
    "'</s>' -}}"
    "{%- elif message.role == 'tool' -%}[TOOL_RESULT]{RESULT}[/TOOL_RESULT]"
    "{%- else -%}[INST]{{- message.content -}}[/INST]{%- endif -%}{%- endfor -%}"
)
_TEXT_RESULT = "{{- message.content -}}"
_PART_RESULT = (
    "{%- if message.content is string -%}{{- message.content -}}{%- else -%}{%- for part in message.content "
    "-%}"
    "{{- '[IMG]' if part.type == 'image' else part.text -}}{%- endfor -%}{%- endif -%}"
)
_ONE_CALL = (
    "{%- if (message.tool_calls or []) | length > 1 -%}{{- raise_exception('one call') -}}{%- endif -%}"
    + _CALLS
)
TEMPLATES = {
    "knows no tools": None,
    "text in results": _WHOLE.replace("{CALLS}", _CALLS).replace("{RESULT}", _TEXT_RESULT),
    "images in results": _WHOLE.replace("{CALLS}", _CALLS).replace("{RESULT}", _PART_RESULT),
    "images in results, one call at a time": _WHOLE.replace("{CALLS}", _ONE_CALL).replace(
        "{RESULT}", _PART_RESULT
    ),
}
QUESTION = text_message("user", "What do you see?")


@cache
def adapter(template: str) -> ModelAdapter:
    """Return the vision model with one of the templates."""
    source = TEMPLATES[template]
    if source is None:
        return create_adapter(read_model(tiny_models.trained("pixtral_colors")), name="pixtral_colors")
    directory = Path(
        shutil.copytree(tiny_models.trained("pixtral_colors"), Path(mkdtemp()) / "pixtral_colors")
    )
    (directory / "chat_template.jinja").write_text(source)
    return create_adapter(read_model(directory), name="pixtral_colors")


def image(red: int) -> ImagePart:
    file = io.BytesIO()
    Image.new("RGB", (16, 16), (red, 0, 0)).save(file, "PNG")
    return ImagePart(data=file.getvalue(), media_type="image/png")


def calls(*numbers: int) -> Message:
    return Message(
        role="assistant",
        parts=tuple(ToolCallPart(id=f"call_{k}", name=f"show_{k}", arguments="{}") for k in numbers),
    )


def result(number: int, num_images: int = 1, text: str | None = None) -> Message:
    """Return a tool result with a unique text and images.

    Each image is as red as its number.
    """
    content = (TextPart(text=f"from_{number}" if text is None else text),)
    return Message(
        role="tool",
        parts=(ToolResultPart(call_id=f"call_{number}", content=(*content, *[image(number)] * num_images)),),
    )


def asked(*messages: Message) -> GenerationRequest:
    return GenerationRequest(model="m", messages=(QUESTION, *messages), max_tokens=4)


def shown(template: str, request: GenerationRequest) -> list[tuple[int, int]]:
    """Return for each image its result.

    By the text before it and by its pixels.
    """
    prompt, images = adapter(template).prompt_text(request), adapter(template).prepare_input(request).images
    before = [prompt[: match.start()] for match in re.finditer(re.escape("[IMG]"), prompt)]
    named = [int(re.findall(r"(?:show|from)_(\d+)", text)[-1]) for text in before]
    return list(zip(named, [image.pixels[0] for image in images], strict=True))


@pytest.mark.parametrize("template", TEMPLATES)
@given(
    rounds=st.lists(
        st.permutations([1, 2, 3]).flatmap(
            lambda order: st.tuples(st.just(order), st.lists(st.integers(0, 2), min_size=3, max_size=3))
        ),
        min_size=1,
        max_size=2,
    )
)
@checks(max_examples=25, deadline=None)
def test_each_image_is_shown_with_its_tool_result(
    template: str, rounds: Sequence[tuple[Sequence[int], Sequence[int]]]
) -> None:
    messages: list[Message] = []
    for turn, (order, num_images) in enumerate(rounds):
        numbers = [10 * turn + number for number in (1, 2, 3)]
        messages.append(calls(*numbers))
        messages += [result(10 * turn + number, num_images[number - 1]) for number in order]

    places = shown(template, asked(*messages))

    assert all(named == painted for named, painted in places)
    assert len(places) == sum(sum(num_images) for _, num_images in rounds)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("images in results", "[TOOL_CALL]show_1 {}</s>[TOOL_RESULT]from_1\n[IMG][/TOOL_RESULT]"),
        (
            "text in results",
            (
                "[TOOL_RESULT]from_1\n(1 image: shown after the results, as of result 1 "
                "(show_1))[/TOOL_RESULT]"
                "[INST]1 image of result 1 (show_1):\n[IMG][/INST]"
            ),
        ),
        ("knows no tools", "</tool_call></s>[INST]<tool_response>\nfrom_1\n[IMG]\n</tool_response>[/INST]"),
    ],
)
def test_template_decides_where_result_images_go(template: str, expected: str) -> None:
    assert adapter(template).prompt_text(asked(calls(1), result(1))).endswith(expected)


def test_image_only_and_error_results_are_labeled() -> None:
    failed = ToolResultPart(call_id="call_1", content=(image(1), image(1)), is_error=True)
    prompt = adapter("text in results").prompt_text(
        asked(calls(1), Message(role="tool", parts=(failed,)), QUESTION)
    )

    assert (
        "[TOOL_RESULT]Error: (2 images: shown after the results, as of result 1 (show_1))[/TOOL_RESULT]"
        in prompt
    )
    assert prompt.endswith(
        "[INST]2 images of result 1 (show_1):\n[IMG][IMG][/INST][INST]What do you see?[/INST]"
    )


def test_results_without_images_are_unchanged() -> None:
    texts = [result(number, 0) for number in (2, 1)]
    prompt = adapter("text in results").prompt_text(asked(calls(1, 2), *texts))

    assert prompt.endswith("[TOOL_RESULT]from_2[/TOOL_RESULT][TOOL_RESULT]from_1[/TOOL_RESULT]")


def test_result_images_count_as_prompt_tokens() -> None:
    request = asked(calls(1), result(1, 2))
    prepared = adapter("text in results").prepare_input(request)
    assert adapter("text in results").count_prompt_tokens(request) == len(prepared.token_ids)
    assert len(prepared.images) == 2


def test_text_model_gets_a_note_for_each_image_of_a_result() -> None:
    reader = create_adapter(read_model(tiny_models.model("qwen3")), name="qwen3")
    remote = RemoteImagePart(url="https://example.com/a.png", param="messages[3]")
    other = ToolResultPart(call_id="c2", content=(TextPart(text="Two"), remote))
    prompt = reader.prompt_text(asked(calls(1, 2), result(1), Message(role="tool", parts=(other,))))
    assert prompt.count("(an image, which is not shown: this model reads text only)") == 2
    assert "Two\n(an image" in prompt


def test_audio_beside_an_image_raises() -> None:
    message = Message(role="user", parts=(image(1), AudioPart(data=b"RIFF", media_type="audio/wav")))
    with pytest.raises(InvalidRequest, match="cannot take audio"):
        adapter("images in results").prepare_input(asked(message))
