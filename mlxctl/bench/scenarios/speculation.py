"""The same answers with and without speculative decoding, in turn.

Some answers repeat their prompt, others do not.
"""

import asyncio
import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from mlxctl.bench.client import Stream
from mlxctl.bench.figures import Chart, Figure, Sample
from mlxctl.bench.prompts import Prompts, user
from mlxctl.bench.target import BenchTarget

_TASKS = {
    "code": "an edited source file, one stream",
    "json": "a repeated JSON document, one stream",
    "prose": "new text, one stream",
    "batch": "all of these at once",
}
_RECORD_WORDS = 12


def _task_figures(task: str, what: str) -> tuple[Figure, ...]:
    return (
        Figure(
            name=f"{task}_speedup",
            unit="times",
            better="higher",
            meaning=f"tokens per second with speculation, divided by without: {what}",
        ),
        Figure(
            name=f"{task}_tokens_per_second",
            unit="tokens/s",
            better="higher",
            meaning=f"with speculation: {what}",
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """Asks every question without and with drafts, in alternating order.

    `num_streams` questions run at once in the batch.
    """

    num_streams: int = 8
    document_tokens: int = 400
    answer_tokens: int = 256

    name: ClassVar[str] = "speculation"
    figures: ClassVar[tuple[Figure, ...]] = (
        *(figure for task, what in _TASKS.items() for figure in _task_figures(task, what)),
        Figure(
            name="accepted_share",
            unit="share",
            better="higher",
            meaning="accepted draft tokens, of those that were verified",
        ),
    )
    charts: ClassVar[tuple[Chart, ...]] = (
        Chart(
            title="speed with speculative decoding, in that without",
            bars=tuple((task, f"{task}_speedup") for task in _TASKS),
        ),
    )

    @property
    def settings(self) -> dict[str, Any]:
        return asdict(self)

    async def measure(self, target: BenchTarget, prompts: Prompts, key: str) -> Sample:
        """Measure each task alone, then all at once."""
        questions = {task: self._question(target, prompts, key, task) for task in ("code", "json", "prose")}
        jobs = {task: [question] for task, question in questions.items()}
        jobs["batch"] = [list(questions.values())[number % 3] for number in range(self.num_streams)]
        sample: Sample = {}
        with_drafts: list[Stream] = []
        for number, (task, texts) in enumerate(jobs.items()):
            # The first answer stores the prompt in the prefix cache for the others.
            await self._ask(target, texts, speculation=True)
            order = (False, True) if number % 2 else (True, False)
            streams = {on: await self._ask(target, texts, speculation=on) for on in order}
            with_drafts += streams[True]
            on, off = _rate(streams[True]), _rate(streams[False])
            if on and off:
                sample |= {f"{task}_tokens_per_second": on, f"{task}_speedup": on / off}
        return sample | _accepted(target, with_drafts)

    async def _ask(self, target: BenchTarget, texts: Sequence[str], *, speculation: bool) -> list[Stream]:
        return await asyncio.gather(
            *(
                target.ask(user(text), max_tokens=self.answer_tokens, speculation=speculation)
                for text in texts
            )
        )

    def _question(self, target: BenchTarget, prompts: Prompts, key: str, task: str) -> str:
        num_tokens = target.fit(self.document_tokens, max_tokens=self.answer_tokens)
        if task == "prose":
            return f"{prompts.text(f'{key} prose', num_tokens)}\n\nContinue this story with new events."
        source = random.Random(f"{prompts.nonce} {key} {task}")  # noqa: S311
        unique = prompts.text(f"{key} {task}", 2)
        records = max(1, num_tokens // 2 // _RECORD_WORDS)
        if task == "json":
            document = json.dumps([_record(source) for _ in range(records)], indent=1)
            return f"{unique}\n\nRepeat this JSON document exactly, and write nothing else:\n\n{document}"
        code = "\n\n".join(_function(source) for _ in range(records))
        return f"{unique}\n\nRename `total` to `amount` in this file and write the whole file:\n\n{code}"


def _record(source: random.Random) -> dict[str, Any]:
    color, thing = source.choice(("red", "old", "large")), source.choice(("box", "train", "river", "bread"))
    return {"id": source.randrange(10_000), "name": f"{color} {thing}", "price": source.randrange(9999) / 100}


def _function(source: random.Random) -> str:
    name, factor = source.choice(("price", "weight", "length", "count")), source.randrange(2, 99)
    return f"def {name}_{source.randrange(1000)}(items):\n    total = sum(items) * {factor}\n    return total"


def _rate(streams: Sequence[Stream]) -> float:
    """Return tokens per second from the first token to the last."""
    begun = min((stream.events[0] for stream in streams if stream.events), default=0.0)
    ended = max((stream.events[-1] for stream in streams if stream.events), default=0.0)
    return sum(stream.num_counted for stream in streams) / (ended - begun) if ended > begun else 0.0


def _accepted(target: BenchTarget, streams: Sequence[Stream]) -> Sample:
    accepted = sum(stream.num_accepted_draft_tokens or 0 for stream in streams)
    rejected = sum(stream.num_rejected_draft_tokens or 0 for stream in streams)
    if not accepted + rejected:
        target.note("no draft was verified: is the server started with --speculation?")
        return {}
    return {"accepted_share": accepted / (accepted + rejected)}
