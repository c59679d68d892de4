"""Prompts and answers of vision families equal those of mlx-vlm.

With its own processors, and its own generation.
"""

import io
import math
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_vlm.utils
import pytest
from mlx_vlm.generate.ar import generate_step
from mlx_vlm.models import gemma3n
from PIL import Image

from mlxctl.engine.decoding import caches as kv
from mlxctl.engine.generation.loading import load_text_model
from mlxctl.engine.scheduling.multimodal_positions import shift_at
from mlxctl.engine.vision.language_model import VisionLanguageModel
from mlxctl.formats.adapters import PreparedInput
from mlxctl.formats.vision.registry import VISION_FAMILIES
from mlxctl.ir import ImagePart, TextPart
from mlxctl.ir.errors import InvalidRequest
from mlxctl.library import read_model
from tests import tiny_models
from tests.tiny_models.families import attention, qwen3_family
from tests.tiny_models.small_towers import small_towers
from tests.tiny_models.writer import build

from .harness import result_of
from .vision_harness import noise, prepared

QUESTION = TextPart(text="What color is this?")
NUM_TOKENS = 6
_unscaled_embeddings = gemma3n.Model.get_input_embeddings
# What processors replace, where it is not the token of a cell.
_PLACEHOLDERS = {"internvl": "<image>", "aya_vision": "<image>", "phi4mm": "<image>"}
# Not a divisor of any number of cells.
SLICE = 7


@pytest.mark.filterwarnings("ignore")  # of processors
@pytest.mark.parametrize("name", [*tiny_models.SEER_NAMES, "qwen3_omni_moe", "gemma4_unified"])
def test_prompt_and_answer_equal_mlx_vlm(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "gemma4_large_seer":
        monkeypatch.setattr("mlx_vlm.models.gemma4.language.Gemma4TextModel._make_masks", _masks)
    monkeypatch.setattr(gemma3n.Model, "get_input_embeddings", scaled_embeddings)
    model = tiny_models.model(name)
    # Some cut tiles of larger images only, and DeepSeek-OCR takes one image.
    first = noise(1, width=760, height=300) if name in ("deepseekocr", "step3p7_seer") else noise(1)
    images = [first] if name == "deepseekocr" else [first, noise(2, width=30, height=90)]
    prompt = prepared(model, images[0], QUESTION, *images[1:])
    with small_towers():
        token_ids, answer = theirs(model, images)
        assert list(prompt.token_ids) == token_ids
        assert ours(model, prompt) == answer


def scaled_embeddings(model: Any, *inputs: Any, **more: Any) -> Any:
    """Return Gemma 3n's embeddings, with those of text scaled as in Transformers.

    mlx-vlm scales them only in prompts without images and audio.
    """
    decoder = model.language_model.model
    table, scale = decoder.embed_tokens, decoder.hidden_size**0.5
    decoder.embed_tokens = lambda token_ids: table(token_ids) * scale
    try:
        return _unscaled_embeddings(model, *inputs, **more)
    finally:
        decoder.embed_tokens = table


def test_second_image_is_refused_where_the_class_reads_one() -> None:
    model = tiny_models.model("deepseekocr")
    with pytest.raises(InvalidRequest, match=r"there are 2 images.*deepseekocr models take 1 in a prompt"):
        prepared(model, noise(1), QUESTION, noise(2))


def test_gemma3n_is_read_under_the_names_of_both_packages(tmp_path: Path) -> None:
    text = attention(
        "gemma3n_text",
        tie_word_embeddings=True, rope_local_base_freq=10_000.0, sliding_window=16, laurel_rank=8,
        layer_types=["sliding_attention", "full_attention"] * 2, altup_active_idx=0, altup_num_inputs=2,
        altup_coef_clip=120.0, altup_correct_scale=True, hidden_size_per_layer_input=8,
        vocab_size_per_layer_input=510, num_kv_shared_layers=2, activation_sparsity_pattern=[0.0] * 4,
        final_logit_softcapping=30.0,
    )  # fmt: skip
    text["intermediate_size"] = [128] * 4
    for name in ("own", "renamed"):
        (tmp_path / name).mkdir()
        build(qwen3_family("gemma3n", {"model_type": "gemma3n", "text_config": text}), tmp_path / name)
    weights: dict[str, Any] = dict(mx.load(str(tmp_path / "own" / "model.safetensors")))  # type: ignore[arg-type]
    renamed = {
        key.replace("model.language_model.", "language_model.model."): value for key, value in weights.items()
    }
    assert renamed.keys().isdisjoint(weights)
    mx.save_safetensors(str(tmp_path / "renamed" / "model.safetensors"), renamed, metadata={"format": "mlx"})
    ids = mx.array([[5, 6, 7, 8]])
    one, other = (
        result_of(load_text_model(read_model(tmp_path / name).spec("m"))).model(ids)
        for name in ("own", "renamed")
    )
    assert mx.array_equal(one, other)


def ours(model: Path, prompt: PreparedInput) -> list[int]:
    """Return the likeliest tokens, after a prefill in slices."""
    vision: VisionLanguageModel = result_of(load_text_model(read_model(model).spec("m"))).model
    caches = kv.new_caches(vision)
    ids, end = mx.array(prompt.token_ids, dtype=mx.uint32), len(prompt.token_ids) - 1
    view = vision.view(ids, prompt.images)
    start = 0
    while start < end:
        stop = min(start + SLICE, end)
        # An image whose tokens attend to each other is not divided.
        stop = next((min(i.end, end) for i in prompt.images if i.is_whole and i.start < stop < i.end), stop)
        view.forward(start, stop, caches)
        start = stop
    shifts = mx.array([shift_at(prompt.images, len(prompt.token_ids))])
    answer = [prompt.token_ids[-1]]
    for _ in range(NUM_TOKENS):
        logits = vision(mx.array([answer[-1:]], dtype=mx.uint32), cache=caches, shifts=shifts)
        answer.append(int(logits[0, -1].argmax().item()))
    return answer[1:]


def theirs(model: Path, images: list[ImagePart]) -> tuple[list[int], list[int]]:
    """Return the ids of the prompt and the likeliest tokens."""
    # `mlx_vlm.utils.load` replaces image processors by ones that read no files.
    whole, processor = mlx_vlm.utils.load_model(model), mlx_vlm.utils.load_processor(model)
    vision = read_model(model).vision
    assert vision is not None
    if vision.family != "step3p7":
        # Where they are numbers in mlx-vlm's code.
        processor.image_token_id = vision.image_token_id
    cell = processor.tokenizer.convert_ids_to_tokens(vision.image_token_id)
    shown = VISION_FAMILIES[vision.family].shown.format(_PLACEHOLDERS.get(vision.family, cell))
    content = shown + QUESTION.text + shown * (len(images) - 1)
    prompt = f"<|im_start|>user\n{content}<|im_end|>\n<|im_start|>assistant\n"
    opened = [Image.open(io.BytesIO(image.data)) for image in images]
    inputs: dict[str, Any]
    if vision.family in ("paddleocr_vl", "step3p7"):
        inputs = _one_by_one(processor, opened, prompt)
    elif vision.family == "deepseekocr":
        # Its processor begins with token 0, and drops the last token.
        inputs = mlx_vlm.utils.prepare_inputs(processor, images=opened, prompts=prompt + ".")
        inputs["input_ids"] = inputs["input_ids"][:, 1:]
        inputs["images_seq_mask"] = inputs["images_seq_mask"][:, 1:]
    else:
        inputs = mlx_vlm.utils.prepare_inputs(
            processor, images=opened, prompts=prompt, add_special_tokens=False
        )
    input_ids, mask = inputs.pop("input_ids"), inputs.pop("attention_mask", None)
    steps = generate_step(
        input_ids, whole, inputs.pop("pixel_values"), mask, max_tokens=NUM_TOKENS, temperature=0.0, **inputs
    )
    token_ids = input_ids[0].tolist()
    if vision.family == "phi4mm":
        # One number, which is no token, stands for all cells of an image.
        grids = iter(inputs["spatial_shapes"].tolist())
        token_ids = [
            each
            for token_id in token_ids
            for each in ([vision.image_token_id] * math.prod(next(grids)) if token_id < 0 else [token_id])
        ]
    return token_ids, [int(token) for token, _ in steps]


def _one_by_one(processor: Any, images: list[Any], prompt: str) -> dict[str, Any]:
    """Return the inputs of two images, from a processor that takes one."""
    first, question, rest = prompt.partition(QUESTION.text)
    parts = [
        mlx_vlm.utils.prepare_inputs(processor, images=[image], prompts=text, add_special_tokens=False)
        for image, text in zip(images, (first + question, rest), strict=True)
    ]
    joined: dict[str, Any] = {
        "num_patches": [number for part in parts for number in part.get("num_patches", ())]
    }
    for name in ("input_ids", "image_grid_thw", "pixel_values", "patch_pixel_values"):
        arrays = [mx.array(part[name]) for part in parts if name in part]
        if arrays:
            # Patches of PaddleOCR-VL are those of one row.
            joined[name] = mx.concatenate(arrays, axis=1 if name == "input_ids" or arrays[0].ndim == 5 else 0)
    return joined


def _masks(decoder: Any, h: mx.array, cache: Any, mm_token_type_ids: mx.array | None = None) -> list[Any]:
    """Masks of transformers: in both directions in windows only.

    mlx-vlm's are so in all layers.
    """
    from mlx_vlm.models.base import create_attention_mask

    masks = []
    for layer, layer_cache in zip(decoder.layers, cache, strict=True):
        window = decoder.window_size if layer.layer_type == "sliding_attention" else None
        mask = create_attention_mask(h, layer_cache, window_size=window, return_array=True)
        if window is not None and mm_token_type_ids is not None and h.shape[1] > 1:
            blocks = decoder._block_sequence_ids_for_mask(mm_token_type_ids)[0]
            mask = mask | mx.triu((blocks[:, None] == blocks[None]) & (blocks >= 0))
        masks.append(mask)
    return masks
