"""`python -m tests.benchmarks.quality`: tool calls and structured output of a real model.

Prints a table and writes `bench_results/quality.json`. `--share 0.2` asks a fifth of the questions. All
answers are greedy.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import httpx

from tests.benchmarks.reporting import print_findings, store_findings
from tests.benchmarks.rounds import Finding, Ratio
from tests.benchmarks.servers import Server, mlxctl_server
from tests.real_models import smollm2
from tests.real_models.asking import ask_all, calling, question
from tests.real_models.judgment import problems_of, problems_of_calls
from tests.real_models.prompts import PROMPTS
from tests.real_models.reference import NUM_TOKENS, generated_answers
from tests.real_models.schemas import SCHEMAS, response_format
from tests.real_models.tools import QUESTIONS, TOOLS

_MAX_TOKENS = 256
_AUTO_TOKENS = 64
_CONTEXT_TOKENS = 8192
_SPEED_TOKENS = 40
_SPEED_SCHEMAS = ("invoice", "booking", "bug report", "contacts")

# What the model can do, whatever mlxctl makes of it.
_VERDICTS = {
    "chat": "yes",
    "thinking": "no",
    "batch_safe": "yes",
    "trimmable_cache": "yes",
    "practical_context": "yes",
    "structured_output": "yes",
    "vision": "no",
}

Answers = list[dict[str, Any]]
_Case = TypeVar("_Case")


def main() -> None:
    """Measure the parts that the arguments name and report."""
    parts = {
        "forced": _forced,
        "auto": _automatic,
        "structured": _structured,
        "speed": _speed,
        "document": _document,
        "probe": _probe,
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=parts, default=list(parts))
    parser.add_argument("--share", type=float, default=1.0, help="share of the questions to ask")
    parser.add_argument("--rounds", type=int, default=4, help="rounds of the speed")
    parser.add_argument("--out", type=Path, default=Path("bench_results/quality.json"))
    options = parser.parse_args()
    model = smollm2()
    findings: list[Finding] = []
    document = ""
    answers: dict[str, Answers] = {}
    with mlxctl_server(model) as server:
        for part in options.parts:
            found, answers[part] = parts[part](server, options)
            findings += found
            # After each part, so that an interrupted run keeps what it has.
            document = store_findings(findings, options.out, model=model.name, answers=answers)
    print_findings(findings, title=model.name, caption="the answers are in the JSON")
    print(document)


def _forced(server: Server, options: argparse.Namespace) -> tuple[list[Finding], Answers]:
    """Named and required calls, with all tools and with three."""
    cases = [
        (text, choice, tools)
        for name, text in QUESTIONS
        for tools in (list(TOOLS.values()), _three_with(name))
        for choice in (name, "required")
    ]
    cases = _chosen(cases, options.share)
    fields = {"max_tokens": _MAX_TOKENS, "parallel_tool_calls": False}
    choices = _choices(server, [calling(text, tools, mode, **fields) for text, mode, tools in cases])
    answers = []
    for (text, mode, tools), choice in zip(cases, choices, strict=True):
        calls, is_cut = choice["message"].get("tool_calls") or [], choice["finish_reason"] == "length"
        problems = problems_of_calls(choice, tools) if calls or is_cut else ["no call"]
        if mode != "required" and any(call["function"]["name"] != mode for call in calls):
            problems.append(f"not a call of {mode}")
        answers.append(_answer(text, choice, problems, tool_choice=mode))
    return [
        _share("forced calls: valid, without an invented property", [not a["problems"] for a in answers]),
        _share(
            f"forced calls: ended within {_MAX_TOKENS} tokens",
            [a["finish_reason"] != "length" for a in answers],
        ),
    ], answers


def _automatic(server: Server, options: argparse.Namespace) -> tuple[list[Finding], Answers]:
    """Questions that need a tool, and others; all tools, and three."""
    texts = [*(text for _, text in QUESTIONS), *list(PROMPTS.values())[: len(QUESTIONS)]]
    names = [*(name for name, _ in QUESTIONS)] * 2
    cases = [
        (text, tools)
        for name, text in zip(names, texts, strict=True)
        for tools in (list(TOOLS.values()), _three_with(name))
    ]
    cases = _chosen(cases, options.share)
    choices = _choices(
        server, [calling(text, tools, "auto", max_tokens=_AUTO_TOKENS) for text, tools in cases]
    )
    answers = [
        _answer(text, choice, problems_of_calls(choice, tools))
        for (text, tools), choice in zip(cases, choices, strict=True)
    ]
    num_calls = sum(bool(answer["tool_calls"]) for answer in answers)
    valid = [not answer["problems"] for answer in answers]
    return [
        _share("automatic calls: only valid ones of offered tools", valid, f", {num_calls} call")
    ], answers


def _structured(server: Server, options: argparse.Namespace) -> tuple[list[Finding], Answers]:
    """Answers to schemas, and their tokens beside those of their text."""
    names = _chosen(list(SCHEMAS), options.share)
    bodies = [
        question(SCHEMAS[name][0], max_tokens=_MAX_TOKENS, response_format=response_format(name))
        for name in names
    ]
    whole = ask_all(server.url, server.model, bodies)
    answers, num_generated, num_canonical = [], 0, 0
    for name, answer in zip(names, whole, strict=True):
        choice, num_tokens = answer["choices"][0], answer["usage"]["completion_tokens"]
        is_cut = choice["finish_reason"] == "length"
        problems = problems_of(choice["message"]["content"], SCHEMAS[name][1], is_cut=is_cut)
        answers.append(_answer(name, choice, problems, num_tokens=num_tokens))
        if not is_cut:
            num_generated += num_tokens
            # The end token is one more.
            num_canonical += len(_token_ids(server, choice["message"]["content"])) + 1
    num_cut = sum(answer["finish_reason"] == "length" for answer in answers)
    findings = [
        _share(
            "structured output: valid or cut off", [not a["problems"] for a in answers], f", {num_cut} cut"
        )
    ]
    if num_canonical:
        ratio = num_generated / num_canonical
        detail = f"{num_generated} and {num_canonical} tokens of {len(answers) - num_cut} finished answers"
        name = "structured output: generated tokens / tokens of the text"
        findings.append(Finding(name, Ratio(ratio, ratio, ratio), 1.01, False, detail))
    return findings, answers


def _speed(server: Server, options: argparse.Namespace) -> tuple[list[Finding], Answers]:
    """Tokens per second of one row, with a schema and without."""
    wall: list[list[float]] = [[], []]
    cpu: list[list[float]] = [[], []]
    # The first round computes the prompts and compiles the schemas.
    for number in range(1 + options.rounds):
        for is_free in (True, False):
            seconds, cpu_seconds, num_tokens = time.perf_counter(), server.cpu_seconds, 0
            for name in _SPEED_SCHEMAS:
                fields = {"ignore_eos": True} if is_free else {"response_format": response_format(name)}
                body = question(SCHEMAS[name][0], max_tokens=_SPEED_TOKENS, **fields)
                num_tokens += ask_all(server.url, server.model, [body])[0]["usage"]["completion_tokens"]
            if number:
                wall[is_free].append(num_tokens / (time.perf_counter() - seconds))
                cpu[is_free].append(num_tokens / (server.cpu_seconds - cpu_seconds))
    return [
        Finding(
            f"with a schema / free: tokens per {what}",
            Ratio.of(rates[False], rates[True]),
            1.0,
            True,
            f"{sum(rates[False]) / options.rounds:.1f} and {sum(rates[True]) / options.rounds:.1f}",
        )
        for what, rates in (("second", wall), ("CPU second of the server", cpu))
    ], []


def _document(server: Server, options: argparse.Namespace) -> tuple[list[Finding], Answers]:
    """A document that leaves room for the answer only, beside mlx-lm."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(Path("docs/guides").glob("*.md")))
    prompt = _token_ids(server, text)[: _CONTEXT_TOKENS - NUM_TOKENS]
    body = {"model": server.model, "prompt": prompt, "max_tokens": NUM_TOKENS, "temperature": 0}
    fields = {"ignore_eos": True, "return_token_ids": True}
    started = time.perf_counter()
    answer = httpx.post(f"{server.url}/v1/completions", json=body | fields, timeout=None).raise_for_status()
    seconds = time.perf_counter() - started
    choice = answer.json()["choices"][0]
    expected = generated_answers(smollm2(), {"document": prompt})["document"].token_ids
    name = f"tokens of mlx-lm after a document of {len(prompt)} tokens"
    equal = [one == other for one, other in zip(choice["token_ids"], expected, strict=True)]
    return [_share(name, equal, f", {seconds:.0f} s")], [{"asked": name, "content": choice["text"]}]


def _probe(server: Server, options: argparse.Namespace) -> tuple[list[Finding], Answers]:
    """Verdicts of `mlxctl probe`, and calls of a server with them."""
    with tempfile.TemporaryDirectory() as state:
        command = [sys.executable, "-m", "mlxctl", "probe", str(smollm2()), "--force", "--json"]
        environment = os.environ | {"XDG_STATE_HOME": state}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
        (report,) = json.loads(done.stdout)
        with mlxctl_server(smollm2(), state_directory=Path(state)) as probed:
            try:
                findings, answers = _forced(probed, options)
            except RuntimeError as error:
                findings, answers = [_share("forced calls are served", [False])], [{"error": str(error)}]
    verdicts = {finding["question"]: finding["verdict"] for finding in report["findings"]}
    right = [verdicts[name] == verdict for name, verdict in _VERDICTS.items()]
    named = [replace(finding, name=f"after a probe, {finding.name}") for finding in findings]
    return [_share("verdicts of a probe", right, f", {report['duration_seconds']:.0f} s"), *named], answers


def _three_with(name: str) -> list[dict[str, Any]]:
    """Return the tool and its two neighbors."""
    names = list(TOOLS)
    place = names.index(name)
    return [TOOLS[names[(place + step) % len(names)]] for step in (-1, 0, 1)]


def _chosen(cases: Sequence[_Case], share: float) -> list[_Case]:
    """Return this share of the cases, of all kinds."""
    num_chosen = max(1, round(share * len(cases)))
    return [cases[index * len(cases) // num_chosen] for index in range(num_chosen)]


def _choices(server: Server, bodies: Answers) -> Answers:
    return [answer["choices"][0] for answer in ask_all(server.url, server.model, bodies)]


def _answer(asked: str, choice: dict[str, Any], problems: list[str], **facts: Any) -> dict[str, Any]:
    message = choice["message"]
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    return {
        "asked": asked,
        **facts,
        "content": message["content"],
        "tool_calls": calls,
        "finish_reason": choice["finish_reason"],
        "problems": problems,
    }


def _token_ids(server: Server, text: str) -> list[int]:
    body = {"model": server.model, "prompt": text, "add_special_tokens": False}
    ids: list[int] = httpx.post(f"{server.url}/tokenize", json=body).raise_for_status().json()["tokens"]
    return ids


def _share(name: str, flags: Sequence[bool], detail: str = "") -> Finding:
    share = sum(flags) / len(flags)
    return Finding(name, Ratio(share, share, share), 1.0, True, f"{sum(flags)} of {len(flags)}{detail}")


if __name__ == "__main__":
    main()
