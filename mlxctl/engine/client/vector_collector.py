"""Collects the vectors of an embedding job. Event-loop thread only."""

from mlxctl.engine.wire.jobs import Embedded


class VectorCollector:
    """Orders vectors by their texts."""

    def __init__(self, num_texts: int) -> None:
        self._vectors: list[bytes | None] = [None] * num_texts
        self._num_left = num_texts

    def take(self, report: Embedded) -> list[bytes] | None:
        """Take a report, and return all vectors with the last.

        Vectors are in the order of the texts.
        """
        num_bytes = len(report.vectors) // len(report.places) if report.places else 0
        for index, place in enumerate(report.places):
            self._vectors[place] = report.vectors[index * num_bytes : (index + 1) * num_bytes]
        self._num_left -= len(report.places)
        return None if self._num_left else [vector for vector in self._vectors if vector is not None]
