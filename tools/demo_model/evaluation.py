"""Measures the model on prompts that were not in training.

*Generated*: conversations of the same generator with the held-out words, names, cities and tools; right means
that greedy decoding writes exactly the expected text, thinking included (checked in one pass: greedy decoding
writes a text if and only if each of its tokens is the most likely one after the tokens before it).
*Hand-written*: probes.toml and first_questions.toml, completed greedily by `mlx_lm`, thinking on and off;
right means the expected text or call after the thinking.
"""

import json
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm import load, stream_generate

from tools.demo_model import conversation, tasks
from tools.demo_model.conversation import Message
from tools.demo_model.curriculum import ALL_TASKS
from tools.demo_model.everyday import CHAT_TOOLS
from tools.demo_model.lexicon import Lexicon

_HELD_OUT_SEED = 99
_SENTENCES = {
    "decline": tasks.SHRUG,
    "abilities": tasks.ABILITIES,
    "story": tasks.STORY.format(hero="cat"),
}
Score = dict[str, int]
Advance = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """Numbers of tasks, of samples per task and mode and of probes.

    Limits in tokens.
    """

    num_tasks: int = 1_000
    num_per_task: int = 60
    num_probes: int = 1_000
    max_answer_tokens: int = 256
    distances: tuple[int, ...] = (50, 100, 200, 400, 800, 1_600)

    def num_parts(self) -> int:
        """Return how often `measure` calls `advance`."""
        return min(self.num_tasks, len(ALL_TASKS)) + len(probes()[: self.num_probes]) + 1


QUICK = Effort(num_tasks=4, num_per_task=1, num_probes=2, max_answer_tokens=4, distances=(50,))


def measure(directory: Path, effort: Effort, advance: Advance = lambda: None) -> dict[str, Any]:
    """Load the model with `mlx_lm` and measure it.

    Call `advance` after each part.
    """
    model, tokenizer = load(str(directory))
    generated = _measure_generated(model, tokenizer, effort, advance)
    written = _measure_written(model, tokenizer, effort, advance)
    recall = {
        str(distance): _measure_recall(model, tokenizer, distance, effort.num_per_task)
        for distance in effort.distances
    }
    advance()
    return {"generated": generated, "hand_written": written, "recall_by_distance_in_tokens": recall}


def _measure_generated(
    model: Any, tokenizer: Any, effort: Effort, advance: Advance
) -> dict[str, dict[str, Score]]:
    table: dict[str, dict[str, Score]] = {}
    for index, task in enumerate(islice(ALL_TASKS, effort.num_tasks)):
        lexicon = Lexicon(_HELD_OUT_SEED + index, held_out=True)
        for thinking in (True, False):
            samples = [replace(task(lexicon), thinking=thinking) for _ in range(effort.num_per_task)]
            right = sum(
                writes_exactly(model, tokenizer, sample.prompt(), sample.completion()) for sample in samples
            )
            row = table.setdefault(samples[0].ability, {})
            row["thinking" if thinking else "not_thinking"] = {"right": right, "of": effort.num_per_task}
        advance()
    return table


def writes_exactly(model: Any, tokenizer: Any, prompt: str, completion: str) -> bool:
    """Return whether greedy decoding after `prompt` writes exactly `completion`.

    `completion` includes its end-of-turn token.
    """
    before = tokenizer.encode(prompt, add_special_tokens=False)
    wanted = tokenizer.encode(completion, add_special_tokens=False)
    best = mx.argmax(model(mx.array([before + wanted]))[0, len(before) - 1 : -1], axis=-1)
    return bool(best.tolist() == wanted)


def _measure_recall(model: Any, tokenizer: Any, distance: int, num_samples: int) -> Score:
    """Count recalled codewords after `distance` tokens of other turns, thinking off."""
    lexicon, right = Lexicon(distance, held_out=True), 0
    for _ in range(num_samples):
        word = lexicon.word()
        messages = [conversation.system(f"You are a helpful assistant. The codeword is {word}.")]
        while len(tokenizer.encode(conversation.render(messages[1:]))) < distance:
            messages += tasks.small_talk(lexicon, 1)
        messages.append(conversation.user("What is the codeword?"))
        prompt = conversation.render(messages, enable_thinking=False)
        right += writes_exactly(
            model, tokenizer, prompt, f"The codeword is {word}.{conversation.END_OF_TURN}"
        )
    return {"right": right, "of": num_samples}


def _measure_written(
    model: Any, tokenizer: Any, effort: Effort, advance: Advance
) -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = {}
    for probe in probes()[: effort.num_probes]:
        row = table.setdefault(probe["ability"], {"right": 0, "of": 0, "wrong": []})
        for thinking in (True, False):
            answer, ended = _answer(model, tokenizer, probe, thinking, effort.max_answer_tokens)
            row["of"] += 1
            if ended and _is_right(probe, answer, thinking=thinking):
                row["right"] += 1
            else:
                row["wrong"].append({"user": probe["user"], "thinking": thinking, "said": answer})
        advance()
    return table


def probes() -> list[dict[str, Any]]:
    """Return the hand-written conversations, with the schemas of their tools."""
    content = _read("probes.toml")
    toolbox = {**content["toolbox"], **{f"chat_{name}": CHAT_TOOLS[name] for name in CHAT_TOOLS}}
    probes: list[dict[str, Any]] = [*content["probe"], *_first_questions()]
    for probe in probes:
        functions = [{"name": key, **toolbox[key]} for key in probe.get("tools", [])]
        probe["tools"] = [{"type": "function", "function": function} for function in functions] or None
    return probes


def _first_questions() -> Iterator[dict[str, Any]]:
    """Yield the rows of first_questions.toml as probes."""
    for name, rows in _read("first_questions.toml").items():
        for tools, question, answer in rows:
            wanted = (
                {"call": answer} if isinstance(answer, dict) else {"expect": _SENTENCES.get(answer, answer)}
            )
            yield {"ability": name.replace("_", " "), "tools": tools, "user": question, **wanted}


def _read(file_name: str) -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / file_name).read_text(encoding="utf-8"))


def _messages(probe: dict[str, Any]) -> Iterator[Message]:
    if "system" in probe:
        yield conversation.system(probe["system"])
    for asked, answered in probe.get("history", []):
        yield conversation.user(asked)
        yield conversation.assistant(answered)
    yield conversation.user(probe["user"])
    if "made" in probe:
        yield {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"type": "function", "function": probe["made"]}],
        }
        yield conversation.tool_result(probe["result"])


def _answer(
    model: Any, tokenizer: Any, probe: dict[str, Any], thinking: bool, max_tokens: int
) -> tuple[str, bool]:
    prompt = conversation.render(list(_messages(probe)), tools=probe["tools"], enable_thinking=thinking)
    ids = tokenizer.encode(prompt, add_special_tokens=False)
    steps = list(stream_generate(model, tokenizer, ids, max_tokens=max_tokens))
    ended = steps[-1].finish_reason == "stop"
    return tokenizer.decode([step.token for step in steps[: len(steps) - ended]]), ended


def _is_right(probe: dict[str, Any], answer: str, *, thinking: bool) -> bool:
    if thinking:
        if not answer.startswith("<think>\n") or "\n</think>\n\n" not in answer:
            return False
        answer = answer.split("\n</think>\n\n", 1)[1]
    if "call" in probe:
        return bool(_call_in(answer) == probe["call"])
    return bool(probe.get("ends")) or answer == probe["expect"]


def _call_in(answer: str) -> Any:
    body = answer.removeprefix("<tool_call>\n").removesuffix("\n</tool_call>")
    try:
        return json.loads(body) if body != answer else None
    except ValueError:
        return None


def totals(part: dict[str, Any]) -> tuple[int, int]:
    """Sum `right` and `of` over a part of the measurements."""
    counts: Counter[str] = Counter()
    for value in part.values():
        if isinstance(value, dict):
            counts["right"], counts["of"] = (
                a + b for a, b in zip((counts["right"], counts["of"]), totals(value), strict=True)
            )
    if "of" in part:
        return part["right"], part["of"]
    return counts["right"], counts["of"]
