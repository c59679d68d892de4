"""What gives way when a batch does not fit into memory.

Cached prefixes were dropped, or spilled to disk, before. Then, in this order:

- A pass gets smaller; groups are not joined; prompts wait while rows decode.
- The least important prompt or row gives its memory to the others: it waits and continues later. Less
  important is a higher priority value, then a prompt than a row that has sent tokens, then the one that came
  last. So the first one always runs to its end.
- What does not fit alone ends with a reason.
"""

from collections.abc import Mapping
from dataclasses import replace

from mlxctl.engine.scheduling.batch import Batch
from mlxctl.engine.scheduling.model_queue import ModelQueue
from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.ir.pass_memory import LEAST_TOKENS


class MemoryRelief:
    """Finds what to run in place of such a batch."""

    def __init__(self, queues: Mapping[str, ModelQueue]) -> None:
        self._queues = queues

    def instead_of(self, batch: Batch) -> Batch | None:
        """Return the batch to try next; None if only `ending` remains."""
        if batch.phase == "decode":
            return self._undo_join(batch) or self._preempt()
        return _smaller(batch) or self._decode(batch.model) or self._preempt(keep=batch.prompts[0])

    def ending(self, batch: Batch) -> Sequence:
        """Return the row that must end, since it does not fit alone."""
        return batch.prompts[0] if batch.prompts else batch.groups[0][0]

    def _undo_join(self, batch: Batch) -> Batch | None:
        queue = self._queues[batch.model]
        if not (batch.joins and queue.undo_join()):
            return None
        return replace(batch, groups=[list(group) for group in queue.groups], joins=False)

    def _decode(self, model: str) -> Batch | None:
        """Return a decode step, of this model if it has rows."""
        for name in (model, *self._queues):
            if groups := self._queues[name].groups:
                return Batch(phase="decode", model=name, groups=[list(group) for group in groups])
        return None

    def _preempt(self, *, keep: Sequence | None = None) -> Batch | None:
        """Return the batch that interrupts the least important row, if several."""
        rows = [row for queue in self._queues.values() for row in (*queue.admitted, *queue.decoding)]
        decoding = {row.sequence_id for queue in self._queues.values() for row in queue.decoding}
        rows.sort(
            key=lambda row: (row.priority, row.sequence_id not in decoding, row.arrived_at, row.sequence_id)
        )
        if keep is None and rows:
            keep = rows[0]
        others = [row for row in rows if row is not keep]
        if not others:
            return None
        row = others[-1]
        if row.sequence_id in decoding:
            return Batch(phase="preempt", model=row.model, groups=[[row]], reason="memory")
        return Batch(phase="preempt", model=row.model, prompts=[row], reason="memory")


def _smaller(batch: Batch) -> Batch | None:
    """Return a pass over fewer tokens or prompts, if possible."""
    if batch.phase == "restore" or batch.prompts[0].unfinished_pass is not None:
        return None
    if len(batch.prompts) > 1:
        prompts = batch.prompts[: len(batch.prompts) // 2]
        num_tokens = sum(prompt.prefill.num_remaining_tokens for prompt in prompts)
        return replace(batch, prompts=prompts, num_tokens=num_tokens)
    (prompt,) = batch.prompts
    num_tokens = prompt.pass_tokens(max(LEAST_TOKENS, batch.num_tokens // 2))
    return replace(batch, num_tokens=num_tokens) if num_tokens < batch.num_tokens else None
