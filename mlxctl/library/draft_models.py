"""What can draft for a model: its MTP head, other models.

Only reads files.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlxctl.library.mtp_heads import MTP_HEAD_TYPE, mtp_problem

if TYPE_CHECKING:
    from mlxctl.library.description import ModelDescription

# Tokenizers are some megabytes of JSON.
_MAX_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafters:
    """What can draft for a text model, beside prompt lookup.

    `has_mtp_head`: the model's weights have one. `mtp_heads` and `draft_models` are names for `--draft`, the
    smallest model first.
    """

    has_mtp_head: bool
    draft_models: tuple[str, ...]
    mtp_heads: tuple[str, ...] = ()


def find_drafters(model: "ModelDescription", others: Iterable["ModelDescription"]) -> Drafters | None:
    """Return what can draft for a model.

    Of `others` these are MTP heads of its sizes, and smaller models with its vocabulary. None for a model
    that generates no text.
    """
    if model.problem is not None or not _generates_text(model) or model.weights is None:
        return None
    others = list(others)
    tokens, size = _tokens(model.path), model.weights.num_bytes
    fitting = [
        (other.weights.num_bytes, other.name)
        for other in others
        if other.weights is not None
        and other.weights.num_bytes < size
        and _can_draft(other)
        and not _difference(tokens, _tokens(other.path))
    ]
    heads = [
        other.name
        for other in others
        if other.config.get("model_type") == MTP_HEAD_TYPE and not mtp_problem(model.path, other.path)
    ]
    return Drafters(
        has_mtp_head=not mtp_problem(model.path),
        draft_models=tuple(name for _, name in sorted(fitting)),
        mtp_heads=tuple(heads),
    )


def _generates_text(model: "ModelDescription") -> bool:
    return model.detection.kind in ("text", "vision") and model.embedding is None


def _can_draft(model: "ModelDescription") -> bool:
    """Whether rejected tokens can be taken out of all layers' caches."""
    cache = model.cache
    return (
        model.problem is None
        and _generates_text(model)
        and cache is not None
        and not cache.window_tokens
        and cache.state_bytes == 0
    )


def vocabulary_problem(model: Path, draft: Path) -> str:
    """Return how the vocabularies of two models differ, else "".

    Only models of one vocabulary can draft for each other.
    """
    return _difference(_tokens(model), _tokens(draft))


def _difference(tokens: dict[str, int], draft_tokens: dict[str, int]) -> str:
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
        if not file.is_file() or file.stat().st_size > _MAX_BYTES:
            return {}
        content: Any = json.loads(file.read_bytes())
        vocabulary = content["model"]["vocab"]
        if isinstance(vocabulary, list):
            vocabulary = {token: index for index, (token, *_) in enumerate(vocabulary)}
        added = {each["content"]: each["id"] for each in content.get("added_tokens") or ()}
    except (OSError, ValueError, TypeError, KeyError):
        return {}
    return {**vocabulary, **added}
