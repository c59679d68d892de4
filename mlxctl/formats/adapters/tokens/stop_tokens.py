"""The tokens that end an answer.

Models name them in several files, none of which is complete.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from mlxctl.formats.adapters.templates.chat_template import ChatTemplate, special_token_texts
from mlxctl.formats.adapters.tokens.vocabulary import Vocabulary
from mlxctl.ir import ModelFacts
from mlxctl.ir.errors import BrokenModel, InvalidRequest

_PROBE_ANSWER = "the answer"
_log = logging.getLogger(__name__)
_MAX_MARKERS = 16


def find_stop_tokens(
    facts: ModelFacts,
    vocabulary: Vocabulary,
    template: ChatTemplate | None,
    *,
    vocabulary_size: int,
    end_tokens: Sequence[str] = (),
    after_call: str = "",
    markers: Collection[str] = (),
) -> frozenset[int]:
    """Return the stop tokens of configuration, family and template.

    `after_call` is the text that the template renders between a call and its result; parts of it that are
    among the parsers' `markers` are no stop tokens. Ids outside the vocabulary are left out. Raises
    BrokenModel when an id of config.json is no number.
    """
    text_config = facts.config.get("text_config")
    sources: list[Mapping[str, Any]] = [facts.config]
    if isinstance(text_config, Mapping):
        sources.append(text_config)
    ids = {token_id for source in sources for token_id in _eos_ids(facts, source.get("eos_token_id"))}
    try:
        ids.update(_eos_ids(facts, facts.generation_config.get("eos_token_id")))
    except BrokenModel as error:
        _log.warning("generation_config.json: %s; they are ignored", error)
    eos_text = special_token_texts(facts.tokenizer_config).get("eos_token")
    texts = end_tokens if eos_text is None else (eos_text, *end_tokens)
    found = {
        *ids,
        *map(vocabulary.id_of, texts),
        _end_of_turn(vocabulary, template),
        _end_of_call(vocabulary, after_call, markers),
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


def _end_of_call(vocabulary: Vocabulary, text: str, markers: Collection[str]) -> int | None:
    """Return the first special token after a call.

    Markers of the format are skipped. The model has to stop there and wait for the tool's result.
    """
    for _ in range(_MAX_MARKERS):
        token = vocabulary.first_special(text)
        if token is None or not any(token.text in marker for marker in markers):
            return None if token is None else token.token_id
        text = text.partition(token.text)[2]
    return None


def _end_of_turn(vocabulary: Vocabulary, template: ChatTemplate | None) -> int | None:
    """Return the special token that the template renders right after an answer."""
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
