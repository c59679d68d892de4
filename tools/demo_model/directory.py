"""Writes the demo model as a Hugging Face directory."""

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from tokenizers import Tokenizer

from tools.demo_model.conversation import TEMPLATE_FILE


def write_model(
    model: Any, tokenizer: Tokenizer, config: dict[str, Any], directory: Path, *, dtype: str
) -> None:
    """Write config, weights, tokenizer, chat template and generation defaults.

    `dtype` is the name of an mlx dtype, for the weights.
    """
    directory.mkdir(parents=True, exist_ok=True)
    end_of_turn, end_of_text = (tokenizer.token_to_id(token) for token in ("<|im_end|>", "<|endoftext|>"))
    weights = {name: value.astype(getattr(mx, dtype)) for name, value in tree_flatten(model.parameters())}
    mx.save_safetensors(str(directory / "model.safetensors"), weights, metadata={"format": "mlx"})
    tokenizer.save(str(directory / "tokenizer.json"), pretty=False)
    # Not a file copy: `directory` may be the one of the shipped template.
    (directory / TEMPLATE_FILE.name).write_bytes(TEMPLATE_FILE.read_bytes())
    _write_json(directory / "config.json", {**config, "eos_token_id": end_of_turn, "torch_dtype": dtype})
    _write_json(
        directory / "generation_config.json",
        {
            "eos_token_id": [end_of_turn, end_of_text],
            "pad_token_id": end_of_text,
            "do_sample": True,
            "temperature": 0.3,
            "top_p": 0.9,
            "top_k": 20,
            # After an unknown question, the model does not stop by itself.
            "max_new_tokens": 256,
        },
    )
    _write_json(
        directory / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": None,
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "model_max_length": config["max_position_embeddings"],
            "clean_up_tokenization_spaces": False,
        },
    )


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
