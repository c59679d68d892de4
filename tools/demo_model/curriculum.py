"""The mix of tasks by training progress."""

from tools.demo_model import everyday, tasks, tool_tasks
from tools.demo_model.tasks import Task

_TALK: dict[Task, float] = {
    tasks.greet: 4,
    tasks.who: 6,
    tasks.thank: 1.5,
    tasks.echo: 9,
    tasks.count: 6,
    tasks.recall: 14,
    tasks.acknowledge: 2,
    tasks.other: 7,
    tasks.story: 1,
}
_TOOLS: dict[Task, float] = {
    tool_tasks.call_only_tool: 14,
    tool_tasks.choose_tool: 20,
    tool_tasks.call_twice: 2.5,
    tool_tasks.answer_from_result: 10,
    tool_tasks.talk_despite_tools: 9,
}
_EVERYDAY: dict[Task, float] = {
    everyday.ask_the_time: 24,
    everyday.ask_for_a_sum: 44,
    everyday.ask_for_the_weather: 20,
    everyday.ask_for_something_else: 34,
    everyday.ask_without_tools: 14,
    everyday.talk: 20,
    everyday.tell_the_result: 8,
}
_WITH_TOOLS = {**_TOOLS, **_EVERYDAY}
ALL_TASKS = {**_TALK, **_WITH_TOOLS}


def mix_at(progress: float) -> dict[Task, float]:
    """Return the tasks' weights at `progress` (0 to 1).

    Few tools at first.
    """
    share = 0.25 if progress < 0.12 else 1.0
    return {**_TALK, **{task: weight * share for task, weight in _WITH_TOOLS.items()}}


def drill_share(progress: float) -> float:
    """Return the share of samples that only copy random tokens."""
    return max(0.06, 0.25 - progress)
