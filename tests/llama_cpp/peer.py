"""Answers of llama.cpp for a GGUF file, as JSON on standard output.

Runs in a virtual environment with `xllamacpp` alone: `python peer.py FILE`, with the questions on standard
input.
"""

import json
import sys
import urllib.request
from typing import Any

import xllamacpp  # type: ignore[import-not-found]

_TIMEOUT_SECONDS = 300


def main() -> None:
    """Continue the prompts greedily, and tokenize the texts."""
    questions = json.load(sys.stdin)
    params = xllamacpp.CommonParams()
    params.model.path = sys.argv[1]
    params.n_ctx = 512
    params.warmup = False
    server = xllamacpp.Server(params)
    url = server.listening_address
    count = questions["num_tokens"]
    greedy = {"temperature": 0, "top_k": 1, "ignore_eos": True, "cache_prompt": False, "return_tokens": True}
    answers = [
        _post(f"{url}/completion", {"prompt": prompt, "n_predict": count, **greedy})["tokens"]
        for prompt in questions["prompts"]
    ]
    texts = [
        _post(f"{url}/tokenize", {"content": text, "add_special": False, "parse_special": True})["tokens"]
        for text in questions["texts"]
    ]
    print(json.dumps({"answers": answers, "texts": texts}))


def _post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
        result: dict[str, Any] = json.load(response)
    return result


if __name__ == "__main__":
    main()
