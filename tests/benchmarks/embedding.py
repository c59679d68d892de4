"""Embedding throughput beside mlx-vlm's encoder in a process.

`python -m tests.benchmarks.embedding MODEL` is the baseline process, which answers each line with texts/s of
one pass. Both get the same token ids of varied length; the baseline sorts and pads them in batches.
"""

import json
import random
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests import tiny_models
from tests.benchmarks.rounds import Finding, Ratio
from tests.benchmarks.servers import Server, blas_environment, mlxctl_server

_NUM_TEXTS = 256
_LENGTHS = (8, 200)
_ROWS = 32
# HTTP and JSON cost time; grouping texts by length saves padding.
_BAR = 1.0


def texts() -> list[list[int]]:
    """Return the texts as token ids, equal in every process."""
    generator = random.Random(5)
    return [
        [generator.randrange(10, 500) for _ in range(generator.randint(*_LENGTHS))] for _ in range(_NUM_TEXTS)
    ]


def throughput(*, rounds: int) -> Iterator[Finding]:
    """Yield texts/s of one request relative to the baseline."""
    model = tiny_models.encoder("bert_bench")
    baseline = subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.embedding", str(model)],
        env=blas_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    ours, theirs = [], []
    with mlxctl_server(model) as server:
        for _ in range(1 + rounds):
            ours.append(_server_rate(server))
            theirs.append(_baseline_rate(baseline))
    baseline.terminate()
    baseline.wait(10)
    # The first round is a warm-up.
    ratio = Ratio.of(ours[1:], theirs[1:])
    rates = f"{max(ours):.0f} of {max(theirs):.0f} texts/s at best"
    detail = f"{rates}, {_NUM_TEXTS} texts of {_LENGTHS[0]} to {_LENGTHS[1]} tokens"
    yield Finding("embeddings, texts/s over mlx-vlm's encoder", ratio, _BAR, True, detail)


def _server_rate(server: Server) -> float:
    body = json.dumps({"model": "default_model", "input": texts(), "encoding_format": "base64"}).encode()
    address = f"http://127.0.0.1:{server.port}/v1/embeddings"
    request = urllib.request.Request(address, body, {"content-type": "application/json"})
    begin = time.perf_counter()
    with urllib.request.urlopen(request, timeout=300) as answer:
        assert len(json.loads(answer.read())["data"]) == _NUM_TEXTS
    return _NUM_TEXTS / (time.perf_counter() - begin)


def _baseline_rate(baseline: "subprocess.Popen[str]") -> float:
    assert baseline.stdin is not None
    assert baseline.stdout is not None
    baseline.stdin.write("\n")
    baseline.stdin.flush()
    return float(baseline.stdout.readline())


def _encode_all(model: Any) -> None:
    import mlx.core as mx

    ordered = sorted(texts(), key=len)
    for start in range(0, len(ordered), _ROWS):
        rows = ordered[start : start + _ROWS]
        width = len(rows[-1])
        padded = mx.array([row + [0] * (width - len(row)) for row in rows])
        mask = mx.array([[1] * len(row) + [0] * (width - len(row)) for row in rows])
        mx.eval(model(padded, attention_mask=mask).text_embeds)


def main(path: str) -> None:
    """Answer until the input ends."""
    from mlx_vlm.embedding_loader import load_embedding_model

    model = load_embedding_model(Path(path))
    for _ in sys.stdin:
        begin = time.perf_counter()
        _encode_all(model)
        print(_NUM_TEXTS / (time.perf_counter() - begin), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
