"""`serve --kv-bits`: quantized KV caches, in /stats, and refusals."""

import shutil
import subprocess
import sys
from pathlib import Path

import httpx

from mlxctl.demo import MODEL_DIR
from tests.tiny_models.wide_heads import wide_model

from .process import serving


def test_demo_model_answers_with_8_bit_kv_cache(tmp_path: Path) -> None:
    for name in ("plain", "quantized"):
        shutil.copytree(MODEL_DIR, tmp_path / name)
    config = tmp_path / "mlxctl.toml"
    config.write_text('[pool.kv_bits_by_name]\nplain = "full"\n')
    body = {"messages": [{"role": "user", "content": "Hello!"}], "temperature": 0, "max_tokens": 24}
    models = ("--model", str(tmp_path / "plain"), "--model", str(tmp_path / "quantized"))
    bits = ("--kv-bits", "8", "--kv-group-size", "32", "--config", str(config))
    with serving(None, *models, *bits) as server:
        answers = {
            name: httpx.post(
                f"{server.url}/v1/chat/completions", json={"model": name, **body}, timeout=60
            ).json()
            for name in ("plain", "quantized")
        }
        loaded = {model["name"]: model for model in httpx.get(f"{server.url}/stats").json()["pool"]["models"]}

    answer_plain, answer_in_8_bits = (
        answer["choices"][0]["message"]["content"] for answer in answers.values()
    )
    assert answer_plain == answer_in_8_bits != ""
    exact, fewer = loaded["plain"], loaded["quantized"]
    # 5 layers, keys and values of 2 heads of 32 numbers in 16 bits; in 8 bits with a scale and a bias of 16
    # bits a head.
    assert (exact["kv_bits"], exact["kv_bytes_per_token"]) == (None, 5 * 2 * 2 * 32 * 2)
    assert (fewer["kv_bits"], fewer["kv_bytes_per_token"]) == (8, 5 * 2 * 2 * (32 + 4))


def test_unsupported_attention_is_refused_with_a_fix() -> None:
    command = [
        sys.executable,
        "-m",
        "mlxctl",
        "serve",
        "--port",
        "0",
        "--kv-bits",
        "8",
        "--kv-group-size",
        "32",
    ]
    run = subprocess.run(
        [*command, "--model", wide_model("gpt_oss")], capture_output=True, text=True, timeout=60, check=False
    )

    assert run.returncode == 1
    assert "attention sinks" in run.stderr
    assert "omit --kv-bits for it" in run.stderr
    assert "Traceback" not in run.stderr
