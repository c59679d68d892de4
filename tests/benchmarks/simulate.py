"""`python -m tests.benchmarks.simulate`: the scheduler's policy on simulated Macs.

Runs the loads of tests/engine/simulated_loads.py, stores all figures, and writes the tables between the
markers of the page. Nothing in it depends on the machine that runs it.
"""

import argparse
import json
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mlxctl.engine.scheduling.model_queue import ModelCosts
from tests.engine.simulated_loads import (
    DISTURBED_WORK,
    Disturb,
    answers_beyond_memory,
    burst,
    long_prompt_beside_streams,
    noise,
    prompts_beyond_memory,
    short_prompt_beside_long,
    stops,
)
from tests.engine.simulated_machine import Machine
from tests.engine.simulated_macs import PROFILES, RANDOM_5M, SMOLLM2, profile

PAGE = Path("docs/benchmarks/simulated-macs.md")
RESULT = Path("bench_results/simulated-macs.json")
BEGIN, END = "<!-- begin of the tables -->", "<!-- end of the tables -->"

_LENGTHS = (40, 370, 1500, 2000)
_BURSTS = tuple((num, length, False) for num in (1, 2, 4, 8, 16) for length in _LENGTHS) + tuple(
    (num, length, True) for num in (4, 16) for length in (370, 2000)
)
# Prompts, their length, and seeds of the disturbance: each right after the start and after two requests.
_DISTURBED_LOADS = ((1, 370, 5), (1, 8000, 2), (4, 370, 5))
_DETAILED = ("SmolLM2 float32, 2 cores", "M1 8 GB, Qwen3-4B-4bit", "M4 Max 128 GB, Qwen3-8B-4bit")
_LONG = ((8000, 4), (32_000, 1))
_MEMORY = (
    ("M1", 8, "Qwen3-4B-4bit"),
    ("M4", 16, "Qwen3-8B-8bit"),
    ("M3 Pro", 36, "Qwen3-32B-4bit"),
    ("M4 Max", 128, "Llama-3.3-70B-Instruct-4bit"),
)

Cell = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """A machine with a model."""

    name: str
    machine: Machine
    costs: ModelCosts | None = None


LINUX = (
    _Subject(name="SmolLM2 float32, 2 cores", machine=SMOLLM2),
    _Subject(name="5M random, 2 cores", machine=RANDOM_5M),
)
MACS = tuple(_Subject(name=each.name, machine=each.machine, costs=each.costs) for each in PROFILES)
_DISTURBED: tuple[tuple[str, float, float, Callable[[int], Disturb] | None], ...] = (
    ("4x slower", 4.0, 1.0, None),
    ("8x slower", 8.0, 1.0, None),
    ("sigma 0.4", 1.0, 1.08, lambda seed: noise(0.4, seed)),
    ("sigma 0.8", 1.0, 1.38, lambda seed: noise(0.8, seed)),
    ("4x slower, sigma 0.4", 4.0, 1.08, lambda seed: noise(0.4, seed)),
    ("8x slower, sigma 0.8", 8.0, 1.38, lambda seed: noise(0.8, seed)),
    ("stopped 80 % of the time", 1.0, 5.0, lambda seed: stops(0.8, seed)),
)


def main() -> None:
    """Simulate, store the figures and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--result", type=Path, default=RESULT)
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    figures = {
        "bursts": list(bursts((*LINUX, *MACS))),
        "disturbed": list(disturbed()),
        "beside": list(beside((*LINUX, *MACS[::2]))),
        "memory": list(memory()),
    }
    rounded = json.loads(json.dumps(figures), parse_float=lambda digits: round(float(digits), 4))
    options.result.write_text(_to_json(rounded))
    text = options.page.read_text()
    before, after = text[: text.index(BEGIN)], text[text.index(END) :]
    options.page.write_text(f"{before}{BEGIN}\n\n{render(rounded)}\n\n{after}")


def bursts(subjects: Iterable[_Subject]) -> Iterator[Cell]:
    """Yield the figures of each burst on each machine."""
    for subject in subjects:
        for num, length, at_once in _BURSTS:
            found = burst(subject.machine, num, length, comes_at_once=at_once, costs=subject.costs)
            name = _load_name(num, length, at_once)
            yield {"subject": subject.name, "load": name, **asdict(found), "meets_bars": found.meets_bars}


def disturbed() -> Iterator[Cell]:
    """Yield figures on slow, noisy and stopped machines.

    Each is the median of several runs, with the worst for the passes.
    """
    subjects = (*LINUX, *(each for each in MACS if each.name == _DETAILED[-1]))
    for subject in subjects:
        for name, factor, slowness, create in _DISTURBED:
            for num, length, num_seeds in _DISTURBED_LOADS:
                found = [
                    burst(
                        subject.machine.slower(factor),
                        num,
                        length,
                        num_before=num_before,
                        costs=subject.costs,
                        slowness=slowness,
                        **({"disturb": create(seed)} if create else {}),
                    )
                    for seed in range(num_seeds if create else 1)
                    for num_before in (0, 2)
                ]
                yield {
                    "subject": subject.name,
                    "machine": name,
                    "load": _load_name(num, length, False),
                    "num_runs": len(found),
                    "work": statistics.median(each.work for each in found),
                    "worst_work": max(each.work for each in found),
                    "smallest_pass": min(each.smallest_pass for each in found),
                    "num_small_passes": max(each.num_small_passes for each in found),
                    "slowest": statistics.median(each.slowest for each in found),
                }


def beside(subjects: Iterable[_Subject]) -> Iterator[Cell]:
    """Yield figures of long prompts beside streams and short prompts."""
    for subject in subjects:
        machine, costs = subject.machine, subject.costs
        cell: Cell = {"subject": subject.name}
        for length, num_streams in _LONG:
            if subject.name.startswith("5M") and length > 8000:
                continue
            found = long_prompt_beside_streams(machine, length, num_streams=num_streams, costs=costs)
            cell[f"{length:,} beside {num_streams}"] = asdict(found)
        for short in (40, 370):
            cell[f"short {short}"] = short_prompt_beside_long(machine, short, 8000, costs=costs)
        yield cell


def memory() -> Iterator[Cell]:
    """Yield figures of prompts that do not fit into memory together."""
    for each in (profile(*names) for names in _MEMORY):
        for load, serve in (("prompts", prompts_beyond_memory), ("answers", answers_beyond_memory)):
            found = serve(each.machine, each.costs, each.memory_limit_bytes)
            yield {"subject": each.name, "load": load, **asdict(found)}


def render(figures: dict[str, list[Cell]]) -> str:
    """Return the tables as Markdown."""
    return "\n\n".join(
        (
            "## Bursts, by machine",
            _by_machine(figures["bursts"]),
            *(
                part
                for subject in _DETAILED
                for part in (f"## Bursts: {subject}", _in_detail(figures["bursts"], subject))
            ),
            "## Slow, noisy and stopped machines",
            _disturbed_table(figures["disturbed"]),
            "## Long prompts beside others",
            _beside_table(figures["beside"]),
            "## More prompts than memory",
            _memory_table(figures["memory"]),
        )
    )


def _by_machine(cells: Sequence[Cell]) -> str:
    columns = (
        "machine, model",
        "within bars",
        "slowest",
        "mean",
        "tokens/s",
        "work",
        "passes < 32",
        "smallest",
    )
    rows = []
    for subject in dict.fromkeys(cell["subject"] for cell in cells):
        own = [cell for cell in cells if cell["subject"] == subject]
        worst = {
            name: max(own, key=lambda cell: sign * cell[name])
            for name, sign in (
                ("slowest", 1),
                ("mean", 1),
                ("speed", -1),
                ("work", 1),
                ("num_small_passes", 1),
            )
        }
        ratios = [f"{worst[name][name]:.2f} ({worst[name]['load']})" for name in list(worst)[:4]]
        most = worst["num_small_passes"]
        small = f"{most['num_small_passes']} ({most['load']})" if most["num_small_passes"] else "0"
        within = f"{sum(cell['meets_bars'] for cell in own)} of {len(own)}"
        rows.append([subject, within, *ratios, small, str(min(cell["smallest_pass"] for cell in own))])
    return _table(columns, rows)


def _in_detail(cells: Sequence[Cell], subject: str) -> str:
    columns = ("load", "slowest", "mean", "tokens/s", "work", "passes", "smallest", "< 32")
    rows = [
        [
            cell["load"],
            f"{cell['slowest']:.2f} ({cell['best_slowest']:.2f})",
            f"{cell['mean']:.2f}",
            *(f"{cell[name]:.2f} ({cell[f'best_{name}']:.2f})" for name in ("speed", "work")),
            *(str(cell[name]) for name in ("num_passes", "smallest_pass", "num_small_passes")),
        ]
        for cell in cells
        if cell["subject"] == subject
    ]
    return _table(columns, rows)


def _disturbed_table(cells: Sequence[Cell]) -> str:
    columns = (
        *("machine, model", "disturbance", "load", "within bars"),
        *("slowest", "work, median", "worst", "passes < 32", "smallest"),
    )
    rows = [
        [
            *(cell[name] for name in ("subject", "machine", "load")),
            "yes" if not cell["num_small_passes"] and cell["worst_work"] <= DISTURBED_WORK else "no",
            *(f"{cell[name]:.2f}" for name in ("slowest", "work", "worst_work")),
            *(str(cell[name]) for name in ("num_small_passes", "smallest_pass")),
        ]
        for cell in cells
    ]
    return _table(columns, rows)


def _beside_table(cells: Sequence[Cell]) -> str:
    names = [f"{length:,} beside {num}" for length, num in _LONG]
    columns = ("machine, model", *names, "short 40", "short 370")
    rows = [
        [cell["subject"], *(_gaps(cell.get(name)) for name in names)]
        + [f"{cell[f'short {short}']:.2f}" for short in (40, 370)]
        for cell in cells
    ]
    return _table(columns, rows)


def _gaps(found: Cell | None) -> str:
    if found is None:
        return "-"
    gaps = f"{found['p99_gap']:.1f} / {found['largest_gap']:.1f}"
    return f"{gaps} ({found['largest_gap_seconds']:.2f} s); {found['first_token']:.2f}"


def _memory_table(cells: Sequence[Cell]) -> str:
    columns = (
        *("machine, model", "load", "refused", "interrupted", "most held"),
        *("mean", "slowest", "urgent", "all"),
    )
    times = ("mean_first_token", "slowest_first_token", "urgent_first_token", "seconds")
    rows = [
        [cell["subject"], cell["load"], *(str(cell[name]) for name in ("num_refused", "num_interrupted"))]
        + [f"{cell['most_held']:.2f}"]
        + [f"{cell[name]:.1f} s" for name in times]
        for cell in cells
    ]
    return _table(columns, rows)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _to_json(figures: dict[str, list[Cell]]) -> str:
    """Return JSON with a line for each cell."""
    parts = (f'"{part}": [\n' + ",\n".join(map(json.dumps, cells)) + "\n]" for part, cells in figures.items())
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _load_name(num: int, length: int, at_once: bool) -> str:
    return f"{num} x {length:,}" + (" at once" if at_once else "")


if __name__ == "__main__":
    main()
