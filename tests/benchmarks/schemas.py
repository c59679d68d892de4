"""`python -m tests.benchmarks.schemas DIRECTORY`: schemas and values of MaskBench, compiled.

DIRECTORY has MaskBench's files (`maskbench/data` of guidance-ai/jsonschemabench, MIT): each a schema of the
public, values that match it and values that do not. Counts what is refused, and which values the grammars
accept, with `strict` and without. Members of objects are put in the order of their schema, in which grammars
have them. Prints a table and writes `bench_results/schemas.json`.
"""

import argparse
import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from llguidance import LLMatcher, LLTokenizer

from mlxctl.formats.grammars import compile_constraint, compose
from mlxctl.ir import Constraint
from mlxctl.ir.errors import InvalidRequest
from mlxctl.ir.json_schemas import target
from tests.benchmarks.reporting import print_findings, store_findings
from tests.benchmarks.rounds import Finding, Ratio

_SEED = 7
_MAX_DEPTH = 6


def main() -> None:
    """Compile all schemas, or `--num` of them, and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--num", type=int)
    parser.add_argument("--out", type=Path, default=Path("bench_results/schemas.json"))
    options = parser.parse_args()
    files = sorted(options.directory.glob("*.json"))
    random.Random(_SEED).shuffle(files)
    files = files[: options.num]
    counts = {is_strict: Counter(_outcomes(files, is_strict=is_strict)) for is_strict in (True, False)}
    findings = list(_findings(counts[True], "strict")) + list(_findings(counts[False], "not strict"))
    print_findings(findings, title="schemas of MaskBench", caption=f"{len(files)} schemas")
    named = {"strict": dict(counts[True]), "not strict": dict(counts[False])}
    print(store_findings(findings, options.out, num_schemas=len(files), counts=named))


def _outcomes(files: list[Path], *, is_strict: bool) -> Iterator[str]:
    tokenizer = LLTokenizer("byte")
    for file in files:
        case = json.loads(file.read_text(encoding="utf-8"))
        schema = case["schema"]
        constraint = Constraint(kind="json_schema", value=schema, param="schema", is_strict=is_strict)
        try:
            definition = compile_constraint(constraint)
        except InvalidRequest:
            yield "refused"
            continue
        yield "compiled"
        first = LLMatcher(tokenizer, compose("start: @output", {"output": definition}))
        assert not first.is_error(), f"{file.name}: {first.get_error()}"
        for value in case["tests"]:
            matcher = first.deep_copy()
            text = list(json.dumps(_ordered(schema, schema, value["data"]), ensure_ascii=False).encode())
            accepted = matcher.try_consume_tokens(text) == len(text) and matcher.is_accepting()
            yield f"{'right' if value['valid'] else 'wrong'} values {'accepted' if accepted else 'rejected'}"


def _findings(counts: Counter[str], kind: str) -> Iterator[Finding]:
    for name, share, others, bar in (
        ("schemas compiled", "compiled", "refused", 0.9),
        ("right values accepted", "right values accepted", "right values rejected", 0.9),
        ("wrong values rejected", "wrong values rejected", "wrong values accepted", 0.99),
    ):
        num_all = counts[share] + counts[others]
        ratio = counts[share] / max(1, num_all)
        yield Finding(
            f"{kind}: {name}", Ratio(ratio, ratio, ratio), bar, True, f"{counts[share]} of {num_all}"
        )


def _ordered(root: Any, schema: Any, value: Any) -> Any:
    """Return the value with members in the order of the schema."""
    if isinstance(value, list):
        return [_ordered(root, _items(root, schema), item) for item in value]
    if not isinstance(value, dict):
        return value
    known = _properties(root, schema)
    places = {name: place for place, name in enumerate(known)}
    names = sorted(value, key=lambda name: places.get(name, len(places)))
    others = schema.get("additionalProperties", True) if isinstance(schema, dict) else True
    return {name: _ordered(root, known.get(name, others), value[name]) for name in names}


def _properties(root: Any, schema: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in _parts(root, schema):
        for name, inner in (part.get("properties") or {}).items():
            found.setdefault(name, inner)
    for part in _parts(root, schema):
        for name in part.get("required") or ():
            found.setdefault(name, True)
    return found


def _items(root: Any, schema: Any) -> Any:
    return next((part["items"] for part in _parts(root, schema) if isinstance(part.get("items"), dict)), True)


def _parts(root: Any, schema: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the schema and those that it refers to or consists of."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return
    yield schema
    if isinstance(reference := schema.get("$ref"), str):
        yield from _parts(root, target(root, reference), depth + 1)
    for key in ("allOf", "anyOf", "oneOf"):
        for part in schema.get(key) or ():
            yield from _parts(root, part, depth + 1)


if __name__ == "__main__":
    main()
