"""`serve --kv-bits`: quantized KV caches, in /stats, and refusals."""

import shutil
from pathlib import Path

import httpx
from click.testing import CliRunner

from mlxctl.cli import app
from mlxctl.library.demo import MODEL_DIR
from tests.tiny_models.wide_heads import wide_model

from .hosted import hosting

NAMES = ("plain", "quantized", "mixed")
BY_LAYER = '[{"layer_idx": 0, "bits": 8, "group_size": 32}, {"layer_idx": 4, "bits": 4, "group_size": 32}]'


def test_demo_model_answers_with_8_bit_kv_cache(tmp_path: Path) -> None:
    for name in NAMES:
        shutil.copytree(MODEL_DIR, tmp_path / name)
    (tmp_path / "mixed" / "kv_config.json").write_text(BY_LAYER)
    config = tmp_path / "mlxctl.toml"
    config.write_text('[pool.kv_bits_by_name]\nplain = "full"\nmixed = "config"\n')
    body = {"messages": [{"role": "user", "content": "Hello!"}], "temperature": 0, "max_tokens": 24}
    models = [part for name in NAMES for part in ("--model", str(tmp_path / name))]
    bits = ("--kv-bits", "8", "--kv-group-size", "32", "--config", str(config))
    with hosting(None, *models, *bits) as server:
        answers = {
            name: httpx.post(
                f"{server.url}/v1/chat/completions", json={"model": name, **body}, timeout=60
            ).json()
            for name in NAMES
        }
        stats = httpx.get(f"{server.url}/stats").json()
    loaded = {model["name"]: model for model in stats["pool"]["models"]}

    answer_plain, answer_in_8_bits, answer_mixed = (
        answer["choices"][0]["message"]["content"] for answer in answers.values()
    )
    assert answer_plain == answer_in_8_bits == answer_mixed != ""
    exact, fewer, mixed = (loaded[name] for name in NAMES)
    # 5 layers, keys and values of 2 heads of 32 numbers in 16 bits; in 8 bits with a scale and a bias of 16
    # bits a head.
    assert (exact["kv_bits"], exact["kv_bytes_per_token"]) == (None, 5 * 2 * 2 * 32 * 2)
    assert (fewer["kv_bits"], fewer["kv_bytes_per_token"]) == (8, 5 * 2 * 2 * (32 + 4))
    by_layer = 2 * 2 * (3 * 32 * 2 + (32 + 4) + (16 + 4))
    assert (mixed["kv_bits"], mixed["kv_bytes_per_token"]) == ("config", by_layer)
    layers = {"kv8": 1, "kv4": 1, "full": 3}
    assert stats["kv_quant"]["mixed"] == {"mode": "config", "layers": layers, "attention": {"global": 5}}


def test_unsupported_attention_is_refused_with_a_fix() -> None:
    bits = ("--kv-bits", "8", "--kv-group-size", "32")
    run = CliRunner().invoke(app, ["serve", "--port", "0", *bits, "--model", wide_model("gpt_oss")])

    assert run.exit_code == 1
    assert "attention sinks" in run.stderr
    assert "omit --kv-bits for it" in run.stderr
    assert "Traceback" not in run.stderr
