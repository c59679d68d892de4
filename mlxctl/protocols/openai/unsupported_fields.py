"""Unsupported fields of chat completions and completions: ignored or refused."""

from typing import Any

from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.structured_output import StructuredOutputFields

# Values without effect, which are accepted.
_HARMLESS: dict[str, tuple[Any, ...]] = {
    "bad_words": (None, []),
    "allowed_token_ids": (None, []),
    "include_stop_str_in_output": (None, False),
    "skip_special_tokens": (None, True),
    "use_beam_search": (None, False),
    "logits_processors": (None, []),
    "chat_template": (None,),
    "documents": (None, []),
}


class UnusedFields(StructuredOutputFields, kw_only=True):
    """Base of bodies with OpenAI's fields that change nothing here.

    Their types are checked.
    """

    user: str | None = None
    store: bool | None = None
    metadata: dict[str, Any] | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    prompt_cache_options: dict[str, Any] | None = None
    prediction: dict[str, Any] | None = None
    audio: dict[str, Any] | None = None


class RefusedFields(UnusedFields, kw_only=True):
    """Base of bodies with vLLM's fields that cannot be honored.

    Values that change nothing are accepted.
    """

    bad_words: list[str] | None = None
    allowed_token_ids: list[int] | None = None
    include_stop_str_in_output: bool | None = None
    skip_special_tokens: bool | None = None
    use_beam_search: bool | None = None
    logits_processors: list[Any] | None = None
    chat_template: str | None = None
    documents: list[Any] | None = None


def check_refused(fields: RefusedFields) -> None:
    """Raise InvalidRequest for the first field that cannot be honored."""
    for name, harmless in _HARMLESS.items():
        if getattr(fields, name) not in harmless:
            raise InvalidRequest(
                f"{name} is not supported; leave it out", param=name, code="unsupported_parameter"
            )
