"""Uses what one extra installs, through a real server: `python .ci/check_extra.py EXTRA`.

Runs in an environment that has mlxctl with that extra and nothing else; the models are those of the tests.
"""

import asyncio
import io
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).parent.parent))

from mlxctl.bench.server_process import ServerSubprocess
from mlxctl.probe.image_check import one_color_png
from mlxctl.probe.questions import SPOKEN_SENTENCES
from tests import tiny_models


def encoders() -> tuple[Path, str, dict[str, Any]]:
    """An embedding by BERT."""
    return (
        tiny_models.encoder("bert"),
        "/v1/embeddings",
        {"json": {"model": "model", "input": "The ferry leaves at noon."}},
    )


def embeddings_extra() -> tuple[Path, str, dict[str, Any]]:
    """An embedding by a bidirectional Llama."""
    _, path, question = encoders()
    return tiny_models.encoder("llama_bidirec"), path, question


def vision() -> tuple[Path, str, dict[str, Any]]:
    """The color of an image."""
    url = f"data:image/png;base64,{b64encode(one_color_png((220, 30, 30))).decode()}"
    content = [
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "text", "text": "What color is this?"},
    ]
    body = {"model": "model", "messages": [{"role": "user", "content": content}], "temperature": 0}
    return tiny_models.trained("pixtral_colors"), "/v1/chat/completions", {"json": body}


def audio() -> tuple[Path, str, dict[str, Any]]:
    """The words of a sentence that a speech model says."""
    import numpy as np
    import soundfile

    from mlxctl.engine.speech.soprano import open_model

    speaker = open_model(tiny_models.trained("soprano_words"))
    samples = np.concatenate([np.array(said.audio) for said in speaker.generate(SPOKEN_SENTENCES[0])])
    file = io.BytesIO()
    soundfile.write(file, samples, speaker.sample_rate, format="WAV")
    files = {"file": ("said.wav", file.getvalue())}
    return (
        tiny_models.trained("whisper_words"),
        "/v1/audio/transcriptions",
        {"data": {"model": "model"}, "files": files},
    )


def is_right(extra: str, answer: dict[str, Any]) -> bool:
    """Whether the answer is correct.

    A unit vector, the color of the image, or the text of the audio.
    """
    match extra:
        case "encoders" | "embeddings-extra":
            vector = answer["data"][0]["embedding"]
            return abs(sum(number * number for number in vector) - 1) < 1e-3
        case "vision":
            return bool(answer["choices"][0]["message"]["content"] == "Red.")
        case _:
            return bool(answer["text"] == "please open the window")


# Extra, and its model, route and request.
KINDS = {
    "encoders": encoders,
    "embeddings-extra": embeddings_extra,
    "vision": vision,
    "audio": audio,
}


async def check(extra: str) -> bool:
    """Start a server for the extra's model and ask it once."""
    model, path, question = KINDS[extra]()
    server = ServerSubprocess(["--model", str(model), "--name", "model"])
    try:
        url = await server.start()
        async with httpx.AsyncClient(base_url=url, timeout=120, trust_env=False) as client:
            answer = await client.post(path, **question)
        print(f"{extra}: {answer.status_code} {answer.text[:100]}")
        return answer.status_code == httpx.codes.OK and is_right(extra, answer.json())
    finally:
        await server.close()


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(check(sys.argv[1])) else f"the extra {sys.argv[1]!r} does not work")
