"""Which tokens end an answer. Models say it in several files, none of which is complete by itself."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from mlxctl.adapters.templates.chat_template import ChatTemplate, special_token_texts
from mlxctl.adapters.tokens.vocabulary import Vocabulary
from mlxctl.errors import BrokenModel, InvalidRequest
from mlxctl.ir import ModelFacts

_PROBE_ANSWER = "the answer"
_MOST_MARKERS = 16


def find_stop_tokens(
    facts: ModelFacts,
    vocabulary: Vocabulary,
    template: ChatTemplate | None,
    *,
    vocabulary_size: int,
    end_tokens: Sequence[str] = (),
    behind_call: str = "",
    markers: Collection[str] = (),
) -> frozenset[int]:
    """Gather the end tokens of config, generation config, tokenizer config and family, and the template's
    ends of turn and call.

    `behind_call` is what the template writes between a call and its result; what of it is part of the
    parsers' `markers` is no end. Ids outside the vocabulary can never be generated and are left out. Raises
    BrokenModel when an id is no number.
    """
    text_config = facts.config.get("text_config")
    sources: list[Mapping[str, Any]] = [facts.config, facts.generation_config]
    if isinstance(text_config, Mapping):
        sources.append(text_config)
    ids = {token_id for source in sources for token_id in _eos_ids(facts, source.get("eos_token_id"))}
    eos_text = special_token_texts(facts.tokenizer_config).get("eos_token")
    texts = end_tokens if eos_text is None else (eos_text, *end_tokens)
    found = {
        *ids,
        *map(vocabulary.id_of, texts),
        _end_of_turn(vocabulary, template),
        _end_of_call(vocabulary, behind_call, markers),
    }
    return frozenset(
        token_id for token_id in found if token_id is not None and 0 <= token_id < vocabulary_size
    )


def _eos_ids(facts: ModelFacts, value: Any) -> Iterable[int]:
    ids = value if isinstance(value, list) else [] if value is None else [value]
    for token_id in ids:
        if not isinstance(token_id, int) or isinstance(token_id, bool):
            raise BrokenModel(
                facts.path, f"eos_token_id of {facts.path.name!r} must hold token ids, not {token_id!r}"
            )
    return ids


def _end_of_call(vocabulary: Vocabulary, behind: str, markers: Collection[str]) -> int | None:
    """The first special token behind a call that is not the format's own: there the model has to stop, and
    the tool answers.
    """
    for _ in range(_MOST_MARKERS):
        token = vocabulary.first_special(behind)
        if token is None or not any(token.text in marker for marker in markers):
            return None if token is None else token.token_id
        behind = behind.partition(token.text)[2]
    return None


def _end_of_turn(vocabulary: Vocabulary, template: ChatTemplate | None) -> int | None:
    """The special token right behind an assistant's words when the template renders a finished turn."""
    if template is None:
        return None
    turn = [{"role": "user", "content": "a question"}, {"role": "assistant", "content": _PROBE_ANSWER}]
    try:
        rendered = template.render(turn, add_generation_prompt=False)
    except InvalidRequest:
        return None
    _, found, rest = rendered.rpartition(_PROBE_ANSWER)
    token = vocabulary.first_special(rest) if found else None
    return token.token_id if token is not None and rest.lstrip().startswith(token.text) else None
