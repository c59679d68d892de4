"""Images in the prefix cache are isolated, exact, and encoded once."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest

from mlxctl.engine import EngineClient
from mlxctl.engine.generation.loading import load_text_model
from mlxctl.engine.vision.language_model import VisionLanguageModel
from mlxctl.formats.adapters import PreparedInput
from mlxctl.ir import CacheOptions, ImagePart, TextPart, VideoPart
from mlxctl.ir.errors import SequenceFailed
from mlxctl.ir.tokens import common_tokens, image_salts, pack
from mlxctl.library import read_model
from tests import tiny_models
from tests.engine.harness import result_of

from .harness import Output
from .vision_harness import BLUE, RED, answer, image, prepared, seeing_engine

MODEL = tiny_models.trained("pixtral_colors")
QUESTION = TextPart(text="What color is this?")
STORY = TextPart(text="The sea is wide, and the hills are old. " * 8)
PLENTY = 1 << 40


def asked(*parts: ImagePart | TextPart) -> PreparedInput:
    return prepared(MODEL, *parts)


def next_turn(prompt: PreparedInput, output_ids: Sequence[int], *, following: PreparedInput) -> PreparedInput:
    """Return the next turn of a conversation.

    Images of `following` come after the output.
    """
    start = len(prompt.token_ids) + len(output_ids)
    moved = (replace(image, start=image.start + start) for image in following.images)
    return replace(
        prompt,
        token_ids=(*prompt.token_ids, *output_ids, *following.token_ids),
        images=(*prompt.images, *moved),
    )


async def ask_all(prompts: Sequence[PreparedInput], **settings: object) -> list[Output]:
    async with seeing_engine(MODEL, **settings) as client:
        return [await answer(client, prompt) for prompt in prompts]


def cold(prompts: Sequence[PreparedInput]) -> list[list[int]]:
    return [output.token_ids for output in asyncio.run(ask_all(prompts, prefix_cache_bytes=0))]


def num_shared(one: PreparedInput, other: PreparedInput, output_ids: Sequence[int]) -> int:
    """Return how many tokens an earlier prompt with its output shares.

    The last output token was never computed.
    """
    computed = pack([*other.token_ids, *output_ids[:-1]])
    shared = common_tokens(pack(one.token_ids), computed, image_salts(one.images), image_salts(other.images))
    return min(shared, len(one.token_ids) - 1)


def test_same_text_with_another_image_is_not_reused() -> None:
    red, blue = asked(image(RED), QUESTION), asked(image(BLUE), QUESTION)
    assert red.token_ids == blue.token_ids

    outputs = asyncio.run(ask_all([red, blue, red, blue]))

    assert outputs[0].token_ids == outputs[2].token_ids != outputs[1].token_ids == outputs[3].token_ids
    all_but_the_last = len(red.token_ids) - 1
    assert [output.num_cached for output in outputs] == [0, 0, all_but_the_last, all_but_the_last]


def test_text_before_different_images_is_shared() -> None:
    red, blue = asked(STORY, image(RED), QUESTION), asked(STORY, image(BLUE), QUESTION)

    outputs = asyncio.run(ask_all([red, blue]))

    assert outputs[1].num_cached == red.images[0].start > 16
    assert [output.token_ids for output in outputs] == cold([red, blue])


@pytest.mark.parametrize("is_last", [True, False], ids=["in its own cache", "from chunks"])
def test_next_turn_about_an_image_does_not_encode_it_again(
    monkeypatch: pytest.MonkeyPatch, is_last: bool
) -> None:
    first = asked(STORY, image(RED), QUESTION)

    async def run() -> tuple[PreparedInput, Output]:
        async with seeing_engine(MODEL) as client:
            output_ids = (await answer(client, first)).token_ids
            if not is_last:
                await answer(client, asked(STORY, image(BLUE), QUESTION))
            monkeypatch.setattr(VisionLanguageModel, "encode", fail_encoding)
            second = next_turn(first, output_ids, following=asked(QUESTION))
            return second, await answer(client, second)

    second, output = asyncio.run(run())

    assert output.num_cached == len(second.token_ids) - len(asked(QUESTION).token_ids) - 1
    monkeypatch.undo()
    assert [output.token_ids] == cold([second])


def test_clip_is_not_encoded_again_in_the_next_turn_and_after_a_restart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model = tiny_models.trained("qwen2_5_vl_colors")
    frames = (image(RED), image(RED), image(BLUE), image(BLUE))
    clip = VideoPart(files=tuple(frame.data for frame in frames), has_frames=True)
    first, slower = (prepared(model, STORY, each, QUESTION) for each in (clip, replace(clip, fps=0.5)))
    assert first.token_ids == slower.token_ids

    async def ask(prompt: PreparedInput) -> Output:
        on_disk = {"cache_dir": tmp_path, "cache_disk_bytes": 1 << 30, "cache_min_free_bytes": 0}
        async with seeing_engine(model, **on_disk) as client:
            return await answer(client, prompt)

    cold_answer = asyncio.run(ask(first))
    # The second group is at another time.
    assert asyncio.run(ask(slower)).num_cached == first.images[1].start
    monkeypatch.setattr(VisionLanguageModel, "encode", fail_encoding)
    second = next_turn(first, cold_answer.token_ids, following=prepared(model, QUESTION))
    assert asyncio.run(ask(second)).num_cached >= first.images[1].end


def fail_encoding(*_: object) -> None:
    raise RuntimeError("no image has to be encoded")


def test_vision_encoder_error_fails_its_request_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_type_error(*_: object) -> None:
        raise TypeError("wrong encoder")

    async def run() -> Output:
        async with seeing_engine(MODEL) as client:
            monkeypatch.setattr(VisionLanguageModel, "encode", raise_type_error)
            with pytest.raises(SequenceFailed, match="encoding an image failed: wrong encoder"):
                await answer(client, asked(image(RED)))
            monkeypatch.undo()
            return await answer(client, asked(image(RED)))

    assert asyncio.run(run()).token_ids


def test_image_that_cannot_be_encoded_fails_its_request() -> None:
    async def run() -> Output:
        async with seeing_engine(MODEL) as client:
            (seen,) = asked(image(RED)).images
            return await answer(client, replace(asked(image(RED)), images=(replace(seen, tiles=((8, 8),)),)))

    with pytest.raises(SequenceFailed, match="encoding an image failed"):
        asyncio.run(run())


def random_prompt(dice: random.Random) -> PreparedInput:
    """Return text and images from a small set.

    Prompts often share a prefix, and often exceed one chunk.
    """
    parts: list[ImagePart | TextPart] = []
    for _ in range(dice.randint(1, 12)):
        color = dice.choice([RED, BLUE])
        parts.append(dice.choice([QUESTION, STORY, image(color), image(color, side=32)]))
    return asked(*parts)


def test_reuse_of_any_length_continues_as_a_cold_run() -> None:
    dice = random.Random(0)
    prompts = [random_prompt(dice) for _ in range(5)]
    prompts += [replace(prompt, token_ids=prompt.token_ids[:-1], images=prompt.images) for prompt in prompts]

    outputs = asyncio.run(ask_all(prompts, prefill_pass_max_tokens=70))

    assert [output.token_ids for output in outputs] == cold(prompts)
    for place, prompt in enumerate(prompts):
        before = zip(prompts[:place], outputs[:place], strict=True)
        computed = max((num_shared(prompt, other, output.token_ids) for other, output in before), default=0)
        assert outputs[place].num_cached == (computed if computed >= 16 else 0)


def test_simultaneous_prompts_share_text_and_encode_their_own_images() -> None:
    trunk = (STORY, image(RED), STORY, STORY)
    prompts = [asked(*trunk, image(color, side=side), QUESTION) for color in (RED, BLUE) for side in (32, 64)]

    async def run() -> tuple[list[list[int]], int]:
        async with seeing_engine(MODEL) as client:
            outputs = await asyncio.gather(*(answer(client, prompt) for prompt in prompts))
            return [output.token_ids for output in outputs], (await client.stats()).num_prompt_tokens

    output_ids, num_read = asyncio.run(run())

    assert output_ids == cold(prompts)
    tails = sum(len(prompt.token_ids) - prompt.images[1].start for prompt in prompts)
    assert num_read <= prompts[0].images[1].start + tails


def test_image_prefix_is_restored_after_a_restart(tmp_path: Path) -> None:
    red, blue = asked(STORY, image(RED), QUESTION), asked(STORY, image(BLUE), QUESTION)
    on_disk = {"cache_dir": tmp_path, "cache_disk_bytes": 1 << 30, "cache_min_free_bytes": 0}
    asyncio.run(ask_all([red], **on_disk))

    outputs = asyncio.run(ask_all([blue, red], **on_disk))

    assert [output.num_cached for output in outputs] == [blue.images[0].start, len(red.token_ids) - 1]
    assert [output.token_ids for output in outputs] == cold([blue, red])


def test_cache_mode_off_reuses_no_image_prefix() -> None:
    red = asked(STORY, image(RED), QUESTION)

    async def run(client_of: CacheOptions) -> list[int]:
        async with seeing_engine(MODEL) as client:
            return [(await answer(client, red, client_of)).num_cached for _ in range(2)]

    assert asyncio.run(run(CacheOptions(mode="off"))) == [0, 0]


async def looked_up(client: EngineClient, prompt: PreparedInput) -> int:
    return (await client.look_up("m", prompt.token_ids, image_salts(prompt.images))).usage.num_cached_tokens


def test_look_up_distinguishes_images() -> None:
    red, blue = asked(STORY, image(RED), QUESTION), asked(STORY, image(BLUE), QUESTION)

    async def run() -> list[int]:
        async with seeing_engine(MODEL) as client:
            await answer(client, red)
            return [await looked_up(client, prompt) for prompt in (red, blue)]

    assert asyncio.run(run()) == [len(red.token_ids) - 1, blue.images[0].start]


def test_features_of_any_suffix_equal_those_of_the_whole_prompt() -> None:
    prompt = asked(image(RED, side=32), QUESTION, image(BLUE, side=32), QUESTION)
    model, token_ids = vision_model(), mx.array(prompt.token_ids)
    whole = model.view(token_ids, prompt.images).features(0, len(token_ids)).states

    for num_cached in range(len(token_ids)):
        rest = model.view(token_ids, prompt.images).features(num_cached, len(token_ids)).states
        assert mx.array_equal(rest, whole[num_cached:])


def vision_model() -> VisionLanguageModel:
    """The tiny vision model, loaded."""
    model: VisionLanguageModel = result_of(load_text_model(read_model(MODEL).spec("m"))).model
    return model
