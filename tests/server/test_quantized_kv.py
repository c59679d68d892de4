"""`serve --kv-bits`: quantized KV caches, in /stats, and refusals."""

import subprocess
import sys

import httpx

from tests.tiny_models.wide_heads import wide_model

from .process import serving


def test_demo_model_answers_with_8_bit_kv_cache() -> None:
    body = {
        "model": "mlxctl-demo",
        "messages": [{"role": "user", "content": "Hello!"}],
        "temperature": 0,
        "max_tokens": 24,
    }
    with serving(None) as plain, serving(None, "--kv-bits", "8", "--kv-group-size", "32") as quantized:
        answers = [
            httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=60).json()
            for server in (plain, quantized)
        ]
        (exact,), (fewer,) = (
            httpx.get(f"{server.url}/stats").json()["pool"]["models"] for server in (plain, quantized)
        )

    answer_plain, answer_in_8_bits = (answer["choices"][0]["message"]["content"] for answer in answers)
    assert answer_plain == answer_in_8_bits
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
