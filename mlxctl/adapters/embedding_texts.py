"""Inputs of embedding models: prompt, special tokens, length limit."""

from mlxctl.adapters.tokens.vocabulary import Vocabulary
from mlxctl.errors import ContextTooLong, InvalidRequest
from mlxctl.ir import EmbeddingRecipe

# Shorter texts are tokenized before they are rejected, so that the error has the exact number of tokens.
_LONG_CHARS = 1 << 17


class EmbeddingTexts:
    """Converts texts to token ids by one model's recipe. Thread-safe."""

    def __init__(self, recipe: EmbeddingRecipe, vocabulary: Vocabulary, *, model: str) -> None:
        self._recipe = recipe
        self._vocabulary = vocabulary
        self._model = model

    def token_ids(
        self, text: str | tuple[int, ...], *, prompt_name: str | None, may_cut: bool
    ) -> tuple[int, ...]:
        """Return the model's input; token ids are used unchanged.

        A text follows the prompt `prompt_name`, by default the model's own. Raises InvalidRequest for an
        unknown name, and ContextTooLong for an input longer than the model's maximum; with `may_cut` a text
        is truncated instead, but keeps the tokens that the tokenizer appends.
        """
        if isinstance(text, str):
            written = self._prompt(prompt_name) + text
            if not may_cut and len(written) >= _LONG_CHARS:
                self._check_lower_bound(written)
            ids, num_end_tokens = self._vocabulary.encode_with_ends(
                written.lower() if self._recipe.is_uncased else written
            )
        else:
            ids, num_end_tokens = list(text), 0
        limit = self._recipe.max_length
        if len(ids) > limit:
            if not may_cut or num_end_tokens >= limit:
                raise ContextTooLong(num_prompt_tokens=len(ids), context_length=limit)
            ids = ids[: limit - num_end_tokens] + ids[len(ids) - num_end_tokens :]
        return tuple(ids)

    def _check_lower_bound(self, text: str) -> None:
        """Raise ContextTooLong for a text that cannot fit, without tokenizing."""
        if (lower_bound := self._vocabulary.token_lower_bound.of(text)) > self._recipe.max_length:
            raise ContextTooLong(num_prompt_tokens=lower_bound, context_length=self._recipe.max_length)

    def _prompt(self, name: str | None) -> str:
        if name is None:
            return self._recipe.prompt
        if name not in self._recipe.prompts:
            names = ", ".join(sorted(self._recipe.prompts)) or "none"
            raise InvalidRequest(
                f"model {self._model!r} has no prompt {name!r}; it has: {names}", param="prompt_name"
            )
        return self._recipe.prompts[name]
