"""Prompts and answers about clips equal those of mlx-vlm."""

import io
import json
from typing import Any

import mlx.core as mx
import mlx_vlm.utils
import numpy as np
import pytest
from mlx_vlm.generate.ar import generate_step
from mlx_vlm.models.qwen3_vl.processing_qwen3_vl import Qwen3VLVideoProcessor
from PIL import Image

from mlxctl.ir import TextPart, VideoPart
from tests import tiny_models

from .test_vision_families import NUM_TOKENS, QUESTION, ours
from .vision_harness import noise, prepared

# A group of Qwen2.5-VL's frames is then one position in time, as mlx-vlm counts them.
FPS = 4.0
FILES = tuple(noise(seed).data for seed in range(5))
CLIP = VideoPart(files=FILES, has_frames=True, fps=FPS)


# What processors replace in each.
_SHOWN = {
    "qwen2_vl": "<|vision_start|><|video_pad|><|vision_end|>",
    "qwen2_5_vl": "<|vision_start|><|video_pad|><|vision_end|>",
    "qwen3_vl": "<|vision_start|><|video_pad|><|vision_end|>",
    "qwen3_5_seer": "<|vision_start|><|video_pad|><|vision_end|>",
    "qwen4_exp_seer": "<|vision_start|><|video_pad|><|vision_end|>",
    "gemma4_seer": "<|video|>",
    "gemma4_unified": "<|video|>",
    "minicpmv4_6": "<|video_pad|>",
    "glm5_next_seer": "<|begin_of_video|><|video|><|end_of_video|>",
}


@pytest.mark.filterwarnings("ignore")  # of processors
@pytest.mark.parametrize("name", _SHOWN)
def test_prompt_and_answer_equal_mlx_vlm(name: str) -> None:
    model = tiny_models.model(name)
    prompt = prepared(model, CLIP, QUESTION)
    whole, processor = mlx_vlm.utils.load_model(model), mlx_vlm.utils.load_processor(model)
    seconds = [place / FPS for place in range(len(FILES))]
    metadata = {"frames_indices": range(len(FILES)), "fps": FPS, "timestamps": seconds}
    knows_times = name.startswith(("qwen3", "qwen4", "glm5"))
    inputs: dict[str, Any] = dict(
        processor(
            text=[f"<|im_start|>user\n{_SHOWN[name]}{QUESTION.text}<|im_end|>\n<|im_start|>assistant\n"],
            videos=[_pixels()],
            **({"video_metadata": [metadata]} if knows_times else {"fps": FPS}),
        )
    )
    token_ids = mx.array(inputs.pop("input_ids"))
    assert list(prompt.token_ids) == token_ids[0].tolist()
    assert ours(model, prompt) == _answer(whole, token_ids, inputs)


def test_glm_reads_the_seconds_after_each_group_as_transformers_writes_them() -> None:
    # mlx-vlm has no processor for its clips. Its model reads groups as images.
    model = tiny_models.model("glm4v")
    prompt = prepared(model, CLIP, QUESTION)
    settings = json.loads((model / "preprocessor_config.json").read_text())
    size = settings.pop("size")
    processor = Qwen3VLVideoProcessor(
        **settings | {"min_pixels": size["shortest_edge"], "max_pixels": size["longest_edge"]}
    )
    seen = processor([_pixels()])
    ((num_groups, height, width),) = seen["video_grid_thw"].tolist()
    inputs = {
        "pixel_values": mx.array(seen["pixel_values_videos"]),
        "image_grid_thw": mx.array([[1, height, width]] * num_groups),
    }
    whole, processor = mlx_vlm.utils.load(str(model))
    group = f"<|begin_of_image|>{'<|image|>' * (height * width // 4)}<|end_of_image|>"
    clip = f"<|begin_of_video|>{group}0{group}0{group}1<|end_of_video|>"
    text = f"<|im_start|>user\n{clip}{QUESTION.text}<|im_end|>\n<|im_start|>assistant\n"
    token_ids = mx.array([processor.tokenizer.encode(text, add_special_tokens=False)])
    assert list(prompt.token_ids) == token_ids[0].tolist()
    assert ours(model, prompt) == _answer(whole, token_ids, inputs)


@pytest.mark.parametrize(
    ("name", "text"), [("lfm2_vl", ""), ("internvl_chat", "Frame{}: "), ("gemma3_seer", "")]
)
def test_frames_are_images_of_other_families(name: str, text: str) -> None:
    # InternVL reads a picture of this size as one tile.
    frames = [noise(seed, width=32, height=32) for seed in range(3)]
    parts = [part for at, frame in enumerate(frames, 1) for part in (TextPart(text=text.format(at)), frame)]
    model = tiny_models.model(name)
    clip = VideoPart(files=tuple(frame.data for frame in frames), has_frames=True)
    one, other = prepared(model, clip, QUESTION), prepared(model, *parts, QUESTION)
    assert one.token_ids == other.token_ids
    assert one.images == other.images


def _pixels() -> Any:
    pictures = [np.asarray(Image.open(io.BytesIO(data)).convert("RGB")) for data in FILES]
    return np.stack(pictures).transpose(0, 3, 1, 2)


def _answer(whole: Any, token_ids: mx.array, inputs: dict[str, Any]) -> list[int]:
    inputs.pop("attention_mask", None)
    inputs = {
        name: mx.array(value) if isinstance(value, np.ndarray) else value for name, value in inputs.items()
    }
    steps = generate_step(
        token_ids,
        whole,
        inputs.pop("pixel_values", None),
        None,
        max_tokens=NUM_TOKENS,
        temperature=0.0,
        **inputs,
    )
    return [int(token) for token, _ in steps]
