"""Tekken, Mistral's tokenizer, as far as transcription needs it.

Its file `tekken.json` has bytes of tokens in the order of their merges. mistral-common reads it, too, and is
not needed for this.
"""

import json
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path

_NUM_SPECIAL = 1000


class Tekken:
    """Encodes pieces of text, and decodes tokens.

    Special tokens have ids below the others.
    """

    def __init__(self, path: Path, special_tokens: Sequence[str] = ()) -> None:
        """Read `tekken.json` of a model directory, which must have `special_tokens`.

        Raises ValueError for a malformed file.
        """
        content = json.loads((path / "tekken.json").read_text(encoding="utf-8"))
        try:
            size = int(content.get("config", {}).get("default_num_special_tokens", _NUM_SPECIAL))
            self._bytes = [b64decode(token["token_bytes"]) for token in content["vocab"]]
            self.special = {
                str(token["token_str"]): int(token["rank"]) for token in content.get("special_tokens", [])
            }
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"its tekken.json is malformed: {error!r}") from error
        if missing := [token for token in special_tokens if token not in self.special]:
            raise ValueError(f"its tekken.json has no token {missing[0]!r}")
        self._num_special = size
        self._ranks = {data: rank for rank, data in enumerate(self._bytes)}

    def encode(self, piece: str) -> list[int]:
        """Return the tokens of a word, which its pattern does not divide."""
        parts = [bytes([byte]) for byte in piece.encode()]
        while True:
            pairs = [
                (rank, place)
                for place in range(len(parts) - 1)
                if (rank := self._ranks.get(parts[place] + parts[place + 1])) is not None
            ]
            if not pairs:
                return [self._ranks[part] + self._num_special for part in parts]
            _, place = min(pairs)
            parts[place : place + 2] = [parts[place] + parts[place + 1]]

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of tokens, without special ones."""
        places = (token_id - self._num_special for token_id in token_ids)
        data = b"".join(self._bytes[place] for place in places if 0 <= place < len(self._bytes))
        return data.decode(errors="replace")
