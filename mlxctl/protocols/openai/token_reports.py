"""Token ids and running counts in answers, as vLLM reports them."""

from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from mlxctl.ir import GeneratedTokens, TextResult, Usage

TokenIds = Sequence[int] | UnsetType


class TokenReport:
    """What the chunks of one choice report, from its GeneratedTokens.

    Without `has_ids` it reports no ids. `usage` counts the answer so far.
    """

    def __init__(self, *, has_ids: bool) -> None:
        self.usage = Usage(num_prompt_tokens=0)
        self._has_ids = has_ids
        self._token_ids: list[int] = []
        self._prompt_token_ids: tuple[int, ...] = ()

    def add(self, event: GeneratedTokens) -> None:
        """Take the next tokens, for the next chunk."""
        self.usage = event.usage
        self._token_ids += event.token_ids

    def add_prompt(self, token_ids: tuple[int, ...]) -> None:
        """Take the ids of the prompt, if any, for the next chunk."""
        self._prompt_token_ids = token_ids or self._prompt_token_ids

    def take_ids(self) -> TokenIds:
        """Return the ids since the last chunk, which may be none."""
        token_ids, self._token_ids = self._token_ids, []
        return token_ids if self._has_ids else UNSET

    def take_prompt_ids(self) -> TokenIds:
        """Return the ids of the prompt, once."""
        prompt_ids, self._prompt_token_ids = self._prompt_token_ids, ()
        return prompt_ids if self._has_ids and prompt_ids else UNSET

    def whole_ids(self, result: TextResult) -> TokenIds:
        """Return the ids of a whole answer."""
        return result.token_ids if self._has_ids else UNSET

    def whole_prompt_ids(self, result: TextResult) -> TokenIds:
        """Return the ids of the prompt of a whole answer."""
        return result.prompt_token_ids if self._has_ids else UNSET
