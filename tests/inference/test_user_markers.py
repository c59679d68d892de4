"""Markers that a chat template writes around user messages."""

from pathlib import Path

import pytest

from mlxctl.inference.cache.user_markers import user_markers
from tests.formats.adapters.families import CASES, adapter_for

EXPECTED = {
    "qwen3": ("<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"),
    # This template always writes a system prompt, so every question has an end of message before it.
    "llama3_1": (
        "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n",
        "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
    ),
    "mistral_new": ("[INST]", "[/INST]"),
}


@pytest.mark.parametrize("template", EXPECTED)
def test_user_markers_are_those_of_the_template(template: str, tmp_path: Path) -> None:
    (case,) = [case for case in CASES if case.name == template]

    assert user_markers(adapter_for(case, tmp_path)) == EXPECTED[template]
