"""The tokenizer of a GGUF file with a real vocabulary."""

from pathlib import Path

import pytest
from mlx_lm.utils import load_tokenizer

from mlxctl.library.conversion.gguf_import import import_gguf
from tests.library.conversion.gguf_files import write_gguf
from tests.library.conversion.test_gguf_import import TEXTS, variant_of

from .prompts import PROMPTS

SMALL = {
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
}


def test_ids_texts_and_prompts_are_those_of_the_model(
    real_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    model = variant_of(real_model, tmp_path / "model", SMALL)
    file = write_gguf(model, tmp_path / "a.gguf", pre="smollm", matrices="Q8_0")
    new = import_gguf(file, tmp_path / "new", origin="a", progress=lambda *_: None).path
    ours, theirs = load_tokenizer(new), load_tokenizer(real_model)
    for text in (*TEXTS, *PROMPTS.values()):
        assert ours.encode(text) == theirs.encode(text)
        assert ours.decode(ours.encode(text)) == theirs.decode(theirs.encode(text))
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    assert ours.apply_chat_template(turns, tokenize=False) == theirs.apply_chat_template(
        turns, tokenize=False
    )
