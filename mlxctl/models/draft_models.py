"""Draft models: which models share a vocabulary. Only reads files."""

import json
from pathlib import Path
from typing import Any

# Tokenizers are some megabytes of JSON.
_MAX_BYTES = 256 * 1024 * 1024


def vocabulary_problem(model: Path, draft: Path) -> str:
    """Return how the vocabularies of two models differ, else "".

    Only models of one vocabulary can draft for each other.
    """
    tokens, draft_tokens = _tokens(model), _tokens(draft)
    if not tokens or not draft_tokens:
        return "one of them has no readable tokenizer.json"
    for token, token_id in draft_tokens.items():
        if tokens.get(token) != token_id:
            known = f"is {tokens[token]}" if token in tokens else "does not exist"
            return f"token {token!r} has the id {token_id} in the draft model and {known} in the model"
    if len(tokens) != len(draft_tokens):
        return f"the model has {len(tokens)} tokens, the draft model {len(draft_tokens)}"
    return ""


def _tokens(directory: Path) -> dict[str, int]:
    """Return the ids of all tokens by text.

    Empty if there is no readable file.
    """
    file = directory / "tokenizer.json"
    try:
        if file.stat().st_size > _MAX_BYTES:
            return {}
        content: Any = json.loads(file.read_bytes())
        vocabulary = content["model"]["vocab"]
        if isinstance(vocabulary, list):
            vocabulary = {token: index for index, (token, *_) in enumerate(vocabulary)}
        added = {each["content"]: each["id"] for each in content.get("added_tokens") or ()}
    except (OSError, ValueError, TypeError, KeyError):
        return {}
    return {**vocabulary, **added}
