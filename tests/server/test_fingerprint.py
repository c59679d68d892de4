"""The system fingerprint in OpenAI's answers."""

from importlib import metadata
from typing import Any

import openai
import pytest

from mlxctl.server.routes.openai import system_fingerprint


def test_all_answers_have_the_same_fingerprint(openai_client: openai.OpenAI) -> None:
    body: dict[str, Any] = {"model": "tiny", "max_tokens": 3, "seed": 1}
    chat: dict[str, Any] = {**body, "messages": [{"role": "user", "content": "Hi"}]}
    whole = openai_client.chat.completions.create(**chat)
    chunks = list(openai_client.chat.completions.create(**chat, stream=True))
    completion = openai_client.completions.create(prompt="Hi", **body)

    assert whole.system_fingerprint == system_fingerprint()
    assert (
        {chunk.system_fingerprint for chunk in chunks}
        == {whole.system_fingerprint}
        == {completion.system_fingerprint}
    )


@pytest.mark.parametrize("package", ["mlx", "mlx-lm"])
def test_fingerprint_changes_with_package_versions(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    before, version = system_fingerprint(), metadata.version
    with monkeypatch.context() as changed:
        changed.setattr(metadata, "version", lambda name: "0.0.1" if name == package else version(name))
        system_fingerprint.cache_clear()
        after = system_fingerprint()
    system_fingerprint.cache_clear()
    assert after != before == system_fingerprint()
    assert before.startswith("fp_")
