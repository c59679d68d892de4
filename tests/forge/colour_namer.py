"""Teaches a tiny Pixtral to name the colour of a picture, in about a minute: `python -m tests.forge.colour_namer DIRECTORY`.

What it learned lies in `trained/rowan`. Pictures are of one colour with a little noise, of any size up to 64 pixels; some questions
come without a picture, and the answer says so.
"""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np

from .command_line import make_where_told
from .families import TEMPLATES, Family
from .vocabulary import train_tokenizer

NUM_STEPS = 700
PATCH_SIZE = 16
COLOURS = {
    "red": (220, 30, 30),
    "green": (30, 160, 50),
    "blue": (30, 60, 220),
    "yellow": (240, 220, 40),
    "black": (15, 15, 15),
    "white": (245, 245, 245),
}
QUESTIONS = (
    "Which colour is this picture? Answer with one word.",
    "What colour is this?",
    "Name the colour.",
    "Tell me the color of the image.",
    "What do you see?",
)
NOTHING_SEEN = "I see no picture."
_ROWS_PER_STEP = 16
_NOISE = 12
_PEAK_RATE = 3e-3
_MEAN, _DEVIATION = 0.5, 0.25
_SPECIAL = ("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[IMG]", "[IMG_BREAK]", "[IMG_END]")
_FAMILY = Family(
    name="rowan", template="pixtral", special_tokens=_SPECIAL, bos_token="<s>", end_tokens=("</s>",), config={}, vocab_size=320
)


def config(image_token_id: int, end_id: int) -> dict[str, Any]:
    """Give the architecture."""
    return {
        "architectures": ["LlavaForConditionalGeneration"],
        "model_type": "pixtral",
        "image_token_index": image_token_id,
        "eos_token_id": end_id,
        "vocab_size": _FAMILY.vocab_size,
        "vision_feature_layer": -1,
        "torch_dtype": "bfloat16",
        "text_config": {
            "model_type": "mistral",
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "intermediate_size": 128,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10_000.0,
            "max_position_embeddings": 2048,
            "vocab_size": _FAMILY.vocab_size,
            "tie_word_embeddings": False,
        },
        "vision_config": {
            "model_type": "pixtral",
            "hidden_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "head_dim": 16,
            "intermediate_size": 64,
            "image_size": 128,
            "patch_size": PATCH_SIZE,
            "num_channels": 3,
            "rope_theta": 10_000.0,
        },
    }


def make(directory: Path, *, num_steps: int = NUM_STEPS, seed: int = 11) -> float:
    """Train the model into `directory` and return its last loss."""
    import mlx.core as mx
    import mlx.nn as nn
    import mlx.optimizers as optimizers
    from mlx.utils import tree_flatten
    from mlx_vlm.models import pixtral

    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer(_FAMILY)
    values = config(tokenizer.token_to_id("[IMG]"), tokenizer.token_to_id("</s>"))
    _write_files(directory, tokenizer, values)
    mx.random.seed(seed)
    model = _model(pixtral, values)
    optimizer = optimizers.AdamW(learning_rate=optimizers.cosine_decay(_PEAK_RATE, num_steps, end=_PEAK_RATE / 50))

    def loss_of(model: Any, ids: mx.array, shares: mx.array, pixels: mx.array) -> mx.array:
        sizes = [tuple(pixels.shape[2:])] * pixels.shape[0]
        embeddings = model.get_input_embeddings(ids[:, :-1], pixels, image_sizes=sizes).inputs_embeds
        logits = model.language_model(ids[:, :-1], inputs_embeds=embeddings).logits
        losses: mx.array = nn.losses.cross_entropy(logits, ids[:, 1:]) * shares[:, 1:]
        return losses.sum() / shares.sum()

    loss_and_gradient = nn.value_and_grad(model, loss_of)
    dice, loss = random.Random(seed), mx.array(0.0)
    for step in range(num_steps):
        loss, gradient = loss_and_gradient(model, *map(mx.array, _batch(tokenizer, dice)))
        gradient, _ = optimizers.clip_grad_norm(gradient, 1.0)
        optimizer.update(model, gradient)
        mx.eval(model.parameters(), optimizer.state, loss)
        if step % 50 == 0:
            print(f"step {step} of {num_steps}: loss {loss.item():.3f}", flush=True)
    weights = {name: value.astype(mx.bfloat16) for name, value in tree_flatten(model.parameters())}
    mx.save_safetensors(str(directory / "model.safetensors"), weights, metadata={"format": "mlx"})
    return float(loss.item())


def _model(package: Any, values: dict[str, Any]) -> Any:
    model_config = package.ModelConfig.from_dict(values)
    model_config.text_config = package.TextConfig.from_dict(values["text_config"])
    model_config.vision_config = package.VisionConfig.from_dict(values["vision_config"])
    return package.Model(model_config)


def _batch(tokenizer: Any, dice: random.Random) -> tuple[Any, Any, Any]:
    """Give ids, which of them are learned, and pictures; all pictures of a batch have one size."""
    num_rows, num_columns = dice.choice((1, 2, 4)), dice.choice((1, 2, 4))
    rows: list[tuple[list[int], list[float]]] = []
    pictures = []
    for _ in range(_ROWS_PER_STEP):
        colour = dice.choice(list(COLOURS))
        is_blind = dice.random() < 0.15
        question = dice.choice(QUESTIONS)
        image = "" if is_blind else _image_text(num_rows, num_columns)
        parts = [image, question] if dice.random() < 0.5 else [question, image]
        prompt = tokenizer.encode("<s>[INST]" + "".join(parts) + "[/INST]").ids
        answer = tokenizer.encode((NOTHING_SEEN if is_blind else colour.capitalize() + ".") + "</s>").ids
        rows.append((prompt + answer, [0.0] * len(prompt) + [1.0] * len(answer)))
        if not is_blind:
            pictures.append(_picture(colour, num_rows, num_columns, dice))
    if not pictures:
        return _batch(tokenizer, dice)
    width = max(len(ids) for ids, _ in rows)
    ids = np.array([ids + [0] * (width - len(ids)) for ids, _ in rows], dtype=np.uint32)
    shares = np.array([share + [0.0] * (width - len(share)) for _, share in rows], dtype=np.float32)
    return ids, shares, np.stack(pictures)


def _image_text(num_rows: int, num_columns: int) -> str:
    return "[IMG_BREAK]".join(["[IMG]" * num_columns] * num_rows) + "[IMG_END]"


def _picture(colour: str, num_rows: int, num_columns: int, dice: random.Random) -> Any:
    noise = np.random.default_rng(dice.randrange(1 << 30))
    shape = (num_rows * PATCH_SIZE, num_columns * PATCH_SIZE, 3)
    base = np.array(COLOURS[colour]) + noise.integers(-_NOISE, _NOISE + 1, 3)
    pixels = np.clip(base + noise.integers(-3, 4, shape), 0, 255) / 255
    return ((pixels - _MEAN) / _DEVIATION).astype(np.float32).transpose(2, 0, 1)


def _write_files(directory: Path, tokenizer: Any, values: dict[str, Any]) -> None:
    tokenizer.save(str(directory / "tokenizer.json"), pretty=False)
    (directory / "chat_template.jinja").write_bytes(TEMPLATES["pixtral"].read_bytes())
    files = {
        "config.json": values,
        "generation_config.json": {"eos_token_id": values["eos_token_id"], "do_sample": False},
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": "<s>",
            "eos_token": "</s>",
            "model_max_length": 2048,
            "clean_up_tokenization_spaces": False,
        },
        "preprocessor_config.json": {
            "image_processor_type": "PixtralImageProcessor",
            "image_mean": [_MEAN] * 3,
            "image_std": [_DEVIATION] * 3,
            "patch_size": {"height": PATCH_SIZE, "width": PATCH_SIZE},
            "size": {"longest_edge": 64},
        },
    }
    for name, value in files.items():
        (directory / name).write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    make_where_told("colour_namer", __doc__, make, num_steps=NUM_STEPS)
