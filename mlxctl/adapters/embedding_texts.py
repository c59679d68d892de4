"""Texts as an embedding model reads them: behind a prompt, between the tokens that the tokenizer puts around,
not too long.
"""

from mlxctl.adapters.tokens.vocabulary import Vocabulary
from mlxctl.errors import ContextTooLong, InvalidRequest
from mlxctl.ir import EmbeddingRecipe

# Texts of fewer characters are tokenized before it is said that they are too long, so that the number is the
# right one.
_LONG_CHARS = 1 << 17


class EmbeddingTexts:
    """Turns texts into token ids, as the recipe of one model says. Thread-safe."""

    def __init__(self, recipe: EmbeddingRecipe, vocabulary: Vocabulary, *, model: str) -> None:
        """`model` is what callers call it."""
        self._recipe = recipe
        self._vocabulary = vocabulary
        self._model = model

    def token_ids(
        self, text: str | tuple[int, ...], *, prompt_name: str | None, may_cut: bool
    ) -> tuple[int, ...]:
        """Return what the model reads; token ids are taken as they are.

        A text stands behind the prompt of that name, or the model's usual one. Raises InvalidRequest for
        another name, and ContextTooLong for what is longer than the model takes; if it `may_cut`, a text
        loses its end, but not the tokens that the tokenizer ends it with.
        """
        if isinstance(text, str):
            written = self._prompt(prompt_name) + text
            if not may_cut and len(written) >= _LONG_CHARS:
                self._refuse_hopeless(written)
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

    def _refuse_hopeless(self, text: str) -> None:
        """Raise ContextTooLong for a text that cannot fit, by its length alone; its number is the least then."""
        if (least := self._vocabulary.least_tokens.of(text)) > self._recipe.max_length:
            raise ContextTooLong(num_prompt_tokens=least, context_length=self._recipe.max_length)

    def _prompt(self, name: str | None) -> str:
        if name is None:
            return self._recipe.prompt
        if name not in self._recipe.prompts:
            known = ", ".join(sorted(self._recipe.prompts)) or "none"
            raise InvalidRequest(
                f"model {self._model!r} has no prompt {name!r}; it has: {known}", param="prompt_name"
            )
        return self._recipe.prompts[name]
