"""Training of the demo model: end to end, and samples by seed."""

import json
import subprocess
import sys
from itertools import islice
from pathlib import Path

from tools.demo_model import everyday, tasks, tool_tasks
from tools.demo_model.conversation import Sample
from tools.demo_model.lexicon import Lexicon

EVERY_TASK = {
    tasks.greet: 1.0,
    tasks.recall: 1.0,
    tasks.echo: 1.0,
    tool_tasks.call_only_tool: 1.0,
    tool_tasks.choose_tool: 1.0,
    tool_tasks.answer_from_result: 1.0,
}


def _samples(seed: int, num_samples: int, *, held_out: bool = False) -> list[Sample]:
    return list(islice(tasks.mix(Lexicon(seed, held_out=held_out), EVERY_TASK), num_samples))


def test_quick_run_writes_loadable_model_and_report(tmp_path: Path) -> None:
    options = ["--quick", "--steps", "2", "--out", str(tmp_path / "model")]
    command = [sys.executable, "-m", "tools.demo_model", *options]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    from mlx_lm import generate, load

    model, tokenizer = load(str(tmp_path / "model"))
    made = json.loads((tmp_path / "abilities.json").read_text(encoding="utf-8"))["made"]
    assert [run["num_steps"] for run in made["runs"]] == [2]
    assert "| ability |" in (tmp_path / "ABILITIES.md").read_text(encoding="utf-8")
    assert isinstance(generate(model, tokenizer, "Hello", max_tokens=4), str)


def test_same_seed_generates_same_conversations() -> None:
    assert _samples(3, 50) == _samples(3, 50)
    assert _samples(3, 50) != _samples(4, 50)


def test_expected_call_uses_an_offered_tool_with_arguments_of_the_question() -> None:
    for sample in _samples(5, 300):
        if "<tool_call>" not in sample.answer:
            continue
        call = json.loads(sample.answer.removeprefix("<tool_call>\n").removesuffix("\n</tool_call>"))
        assert call["name"] in [tool["function"]["name"] for tool in sample.tools or []]
        assert all(str(value) in sample.messages[-1]["content"] for value in call["arguments"].values())


def test_everyday_calls_use_an_offered_tool_and_its_argument() -> None:
    asked = (everyday.ask_the_time, everyday.ask_for_a_sum, everyday.ask_for_the_weather)
    samples = list(islice(tasks.mix(Lexicon(7, held_out=False), dict.fromkeys(asked, 1.0)), 300))
    declined = [sample for sample in samples if sample.answer == tasks.SHRUG]
    for sample in (sample for sample in samples if sample not in declined):
        call = json.loads(sample.answer.removeprefix("<tool_call>\n").removesuffix("\n</tool_call>"))
        offered = {tool["function"]["name"]: tool["function"]["parameters"] for tool in sample.tools or []}
        assert set(offered[call["name"]]["required"]) <= call["arguments"].keys()
        assert call["arguments"].keys() <= offered[call["name"]]["properties"].keys()
    assert 30 < len(declined) < 200


def test_held_out_words_are_not_in_training() -> None:
    trained = Lexicon(1, held_out=False)
    held_out = Lexicon(1, held_out=True)
    assert not {trained.pick("cities") for _ in range(2_000)} & {
        held_out.pick("cities") for _ in range(2_000)
    }


def test_held_out_tools_are_not_in_training() -> None:
    names = [
        {
            tool_tasks.known_tool(Lexicon(seed, held_out=held_out)).schema["function"]["name"]
            for seed in range(300)
        }
        for held_out in (False, True)
    ]
    assert not names[0] & names[1]
