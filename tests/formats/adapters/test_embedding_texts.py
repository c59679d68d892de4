"""Inputs of embedding models: truncated only if allowed, with their end tokens."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxctl.formats.adapters import ModelAdapter, create_adapter
from mlxctl.ir.errors import ContextTooLong, InvalidRequest
from mlxctl.library import read_model
from tests import tiny_models

WORDS = st.lists(st.sampled_from(["the", "a", "who", "you", "[SEP]", "sea", "é"]), min_size=1, max_size=600)


@pytest.fixture(scope="module")
def bert() -> ModelAdapter:
    return create_adapter(read_model(tiny_models.encoder("bert")), name="bert")


@settings(deadline=None)
@given(words=WORDS)
def test_truncated_text_keeps_its_start_and_end_tokens(bert: ModelAdapter, words: list[str]) -> None:
    text = " ".join(words)
    ids, num_end_tokens = bert.vocabulary.encode_with_ends(text)
    assert num_end_tokens == 1
    cut = bert.prepare_embedding(text, "input", may_cut=True)
    assert len(cut) == min(len(ids), 400)
    assert list(cut) == [*ids[: len(cut) - 1], ids[-1]]
    if len(ids) > 400:
        with pytest.raises(ContextTooLong, match=f"{len(ids)} tokens > 400 maximum"):
            bert.prepare_embedding(text, "input")


def test_token_ids_are_truncated_unchanged_and_checked(bert: ModelAdapter) -> None:
    assert bert.prepare_embedding((7,) * 500, "input", may_cut=True) == (7,) * 400
    with pytest.raises(InvalidRequest, match="has token 9999"):
        bert.prepare_embedding((9999,), "input")


def test_named_prompt_replaces_the_default_prompt() -> None:
    gemma = create_adapter(read_model(tiny_models.encoder("embeddinggemma")), name="gemma")
    asked = gemma.prepare_embedding("sea", "input", prompt_name="document")
    assert asked == gemma.prepare_embedding("title: none | text: sea", "input")
    with pytest.raises(InvalidRequest, match="has no prompt 'passage'; it has: document, query") as refusal:
        gemma.prepare_embedding("sea", "input", prompt_name="passage")
    assert refusal.value.param == "prompt_name"
