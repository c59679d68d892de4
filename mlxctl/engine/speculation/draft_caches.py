"""A drafter's caches for a changing set of rows. MLX thread only."""

from collections.abc import Callable

from mlxctl.engine.decoding import caches as kv
from mlxctl.prefix_cache.records import leaves


class DraftCaches:
    """Caches of a batch of rows, and of rows outside of it.

    All layers keep every token. Rows are copied when the batch changes.
    """

    def __init__(self, create: Callable[[], kv.Caches]) -> None:
        """`create` returns empty caches of one row."""
        self._create = create
        self._single: dict[int, kv.Caches] = {}
        self._ids: list[int] = []
        self._batch: kv.Caches = []

    def of_batch(self, sequence_ids: list[int]) -> kv.Caches:
        """Return the caches of these rows, in order.

        Those of new rows are empty.
        """
        if sequence_ids != self._ids:
            self._divide()
            parts = [self.of_row(each) for each in sequence_ids]
            for each in sequence_ids:
                del self._single[each]
            self._batch = parts[0] if len(parts) == 1 else kv.join(parts, [1] * len(parts))
            self._ids = sequence_ids
        return self._batch

    def of_row(self, sequence_id: int) -> kv.Caches:
        """Return the caches of a row alone."""
        if sequence_id in self._ids:
            self._divide()
        if sequence_id not in self._single:
            self._single[sequence_id] = self._create()
        return self._single[sequence_id]

    def trim(self, num_tokens: list[int]) -> None:
        """Drop the last tokens of each row of the batch."""
        least = min(num_tokens)
        for layer in leaves(self._batch):
            layer.trim(least)
        self.align_ends([num - least for num in num_tokens])

    def align_ends(self, paddings: list[int]) -> None:
        """Drop the last tokens of each row; they become padding."""
        if any(paddings):
            kv.align_ends(self._batch, paddings)
            kv.drop_spare_padding(self._batch)

    def drop(self, sequence_id: int) -> None:
        """Free the caches of a row."""
        self._single.pop(sequence_id, None)
        if sequence_id not in self._ids:
            return
        staying = kv.fewest_moves([index for index, each in enumerate(self._ids) if each != sequence_id])
        self._ids = [self._ids[index] for index in staying]
        if len(staying) > 1:
            kv.keep_rows(self._batch, staying)
        else:
            self._batch = kv.extract_row(self._batch, staying[0]) if staying else []

    def _divide(self) -> None:
        """Give each row of the batch separate caches."""
        for index, sequence_id in enumerate(self._ids):
            alone = len(self._ids) == 1
            self._single[sequence_id] = self._batch if alone else kv.extract_row(self._batch, index)
        self._ids, self._batch = [], []
