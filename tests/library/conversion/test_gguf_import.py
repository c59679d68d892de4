"""Importing GGUF files: weights, configuration and tokenizer of the new model."""

import errno
import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.utils import load_model, load_tokenizer

from mlxctl.ir.errors import ConversionFailed
from mlxctl.library import describe_model
from mlxctl.library.conversion.gguf_import import import_gguf
from mlxctl.library.conversion.weight_writer import StoredTensor, WeightWriter
from tests import tiny_models
from tests.library.conversion.gguf_files import variant_of, write_gguf

TEXTS = (
    "Hello, world! 123,456.789",
    "  two  spaces\n\n\ttabs and 'quotes' don't  \n",
    "def f(x):\n    return x ** 2  # π ≈ 3.14159\n",
    "Größe naïve Ωmega Привет 你好，世界 こんにちは 🧑‍🚀 e\u0301",
    "<|im_start|>user\nHi<|im_end|>\n",
)


@pytest.fixture
def data_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of models that are made."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "mlxctl" / "models"


def imported(file: Path, target: Path, **options: Any) -> Path:
    return import_gguf(file, target, origin=file.name, progress=lambda *_: None, **options).path


def logits(model: Path) -> np.ndarray:
    network, _ = load_model(model)
    return np.array(network(mx.array([[5, 17, 99, 250, 3, 8, 8, 41]])).astype(mx.float32))


@pytest.mark.parametrize("name", ["llama3", "mistral", "qwen3", "gemma3"])
def test_float32_file_gives_the_same_logits(name: str, data_home: Path, tmp_path: Path) -> None:
    model = tiny_models.model(name)
    new = imported(write_gguf(model, tmp_path / "a.gguf"), data_home / "a")
    assert np.array_equal(logits(new), logits(model))
    assert describe_model(new).problem is None


@pytest.mark.parametrize(
    ("name", "changes", "part"),
    [
        ("qwen3", {"model_type": "qwen2"}, "q_proj.bias"),
        ("gemma3", {"model_type": "gemma"}, "input_layernorm.weight"),
        ("gemma3", {"model_type": "gemma2"}, "post_feedforward_layernorm.weight"),
        ("llama3", {"attention_bias": True, "mlp_bias": True}, "o_proj.bias"),
        ("llama3", {"rope_scaling": {"rope_type": "linear", "factor": 4.0}}, "q_proj.weight"),
    ],
)
def test_architecture_of_the_same_shape(
    name: str, changes: dict[str, Any], part: str, data_home: Path, tmp_path: Path
) -> None:
    model = variant_of(tiny_models.model(name), tmp_path / "model", changes)
    assert any(name.endswith(part) for name in mx.load(str(model / "model.safetensors")))
    scaling = changes.get("rope_scaling", {})
    metadata = {f"llama.rope.scaling.{key.replace('rope_', '')}": value for key, value in scaling.items()}
    new = imported(write_gguf(model, tmp_path / "a.gguf", metadata=metadata), data_home / "a")
    assert np.array_equal(logits(new), logits(model))


def test_llama3_rope_factors_become_rope_scaling(data_home: Path, tmp_path: Path) -> None:
    model = tiny_models.model("llama3")
    config = json.loads((model / "config.json").read_text())
    theta, dims = config["rope_theta"], config["head_dim"]
    wavelengths = 2 * np.pi * theta ** (np.arange(0, dims, 2) / dims)
    smooth = (8192 / wavelengths - 1) / 3
    between = 1 / ((1 - smooth) / 8 + smooth)
    factors = np.where(wavelengths > 8192, 8, np.where(wavelengths < 2048, 1, between)).astype(np.float32)
    new = imported(
        write_gguf(model, tmp_path / "a.gguf", tensors={"rope_freqs.weight": factors}), data_home / "a"
    )
    scaling = json.loads((new / "config.json").read_text())["rope_scaling"]
    assert scaling["rope_type"] == "llama3"
    assert (scaling["factor"], scaling["original_max_position_embeddings"]) == (8, 8192)
    other = write_gguf(model, tmp_path / "b.gguf", tensors={"rope_freqs.weight": factors * 1.1})
    with pytest.raises(ConversionFailed, match="other factors than those of Llama 3"):
        imported(other, data_home / "b")


@pytest.mark.parametrize(("kind", "bits"), [("Q8_0", 8), ("Q4_0", 4), ("Q4_1", 4), ("Q5_0", 5), ("Q5_1", 5)])
def test_quantized_weights_keep_their_values(kind: str, bits: int, data_home: Path, tmp_path: Path) -> None:
    import gguf

    model = tiny_models.model("llama3")
    new = imported(write_gguf(model, tmp_path / "a.gguf", matrices=kind), data_home / "a")
    weights = mx.load(str(new / "model.safetensors"))
    name = "model.layers.1.mlp.up_proj"
    scales, biases = (weights[f"{name}.{part}"].astype(mx.float32) for part in ("scales", "biases"))
    ours = mx.dequantize(weights[f"{name}.weight"], scales, biases, group_size=32, bits=bits)
    original = np.array(mx.load(str(model / "model.safetensors"))[f"{name}.weight"])
    type_ = gguf.GGMLQuantizationType[kind]
    theirs = gguf.quants.dequantize(gguf.quants.quantize(original, type_), type_)
    assert np.array_equal(np.array(ours), theirs)
    config = json.loads((new / "config.json").read_text())
    assert config["quantization"] == {"group_size": 32, "bits": bits, "mode": "affine"}
    assert (
        f"tensors {kind} as {bits} bits in groups of 32 with float16 scales: exactly"
        in (new / "README.md").read_text()
    )


def test_quantizing_to_other_bits_writes_a_model_that_loads(data_home: Path, tmp_path: Path) -> None:
    model = tiny_models.model("qwen3")
    new = imported(write_gguf(model, tmp_path / "a.gguf", matrices="F16"), data_home / "a", bits=6)
    network, config = load_model(new)
    assert config["quantization"] == {"group_size": 64, "bits": 6, "mode": "affine"}
    assert network(mx.array([[1, 2, 3]])).shape == (1, 3, 512)


@pytest.mark.parametrize("name", ["llama3", "qwen3"])
def test_tokenizer_gives_the_same_ids_texts_and_prompts(name: str, data_home: Path, tmp_path: Path) -> None:
    model = tiny_models.model(name)
    new = imported(write_gguf(model, tmp_path / "a.gguf"), data_home / "a")
    ours, theirs = load_tokenizer(new), load_tokenizer(model)
    for text in TEXTS:
        assert ours.encode(text, add_special_tokens=False) == theirs.encode(text, add_special_tokens=False)
        assert ours.decode(ours.encode(text)) == theirs.decode(theirs.encode(text))
    turns = [{"role": "user", "content": "What is 2+2?"}]
    assert ours.apply_chat_template(turns, tokenize=False) == theirs.apply_chat_template(
        turns, tokenize=False
    )
    assert ours.eos_token_ids == theirs.eos_token_ids


def test_interrupted_import_leaves_nothing(data_home: Path, tmp_path: Path) -> None:
    file = write_gguf(tiny_models.model("qwen3"), tmp_path / "a.gguf")

    def interrupt(done: int, total: int) -> None:
        if done > total // 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_gguf(file, data_home / "a", origin="a", progress=interrupt)
    assert list(data_home.iterdir()) == []


def test_damaged_file_leaves_nothing(data_home: Path, tmp_path: Path) -> None:
    file = write_gguf(tiny_models.model("qwen3"), tmp_path / "a.gguf")
    with pytest.raises(ConversionFailed, match="is damaged"):
        imported(file, data_home / "a", sha256="0" * 64)
    assert list(data_home.iterdir()) == []


def test_full_disk_leaves_nothing_and_is_named(
    data_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(WeightWriter, "write", fail)
    with pytest.raises(ConversionFailed, match=r"the disk of .* is full; nothing was kept"):
        imported(write_gguf(tiny_models.model("qwen3"), tmp_path / "a.gguf"), data_home / "a")
    assert list(data_home.iterdir()) == []


def test_weights_are_split_into_files_of_bounded_size(tmp_path: Path) -> None:
    tensors = [StoredTensor(f"t{number}", "F32", (4, 2)) for number in range(5)]
    with WeightWriter(tmp_path, tensors, part_bytes=64) as writer:
        for number, tensor in enumerate(tensors):
            for row in range(4):
                values = np.full(2, 10 * number + row, np.float32)
                writer.write(tensor.name, 8 * row, values.tobytes())
    files = sorted(tmp_path.glob("*.safetensors"))
    assert [file.name for file in files] == [
        f"model-{number:05}-of-00003.safetensors" for number in (1, 2, 3)
    ]
    loaded = {name: array for file in files for name, array in mx.load(str(file)).items()}
    assert np.array(loaded["t4"]).tolist() == [[40.0 + row] * 2 for row in range(4)]
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["weight_map"]["t4"] == files[2].name
