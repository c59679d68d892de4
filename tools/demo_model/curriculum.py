"""The mix of tasks by training progress."""

from tools.demo_model import tasks, tool_tasks
from tools.demo_model.tasks import Task

_TALK: dict[Task, float] = {
    tasks.greet: 4,
    tasks.who: 3,
    tasks.thank: 1.5,
    tasks.echo: 9,
    tasks.count: 6,
    tasks.add: 2,
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
ALL_TASKS = {**_TALK, **_TOOLS}


def mix_at(progress: float) -> dict[Task, float]:
    """Return the tasks' weights at `progress` (0 to 1).

    Few tools at first.
    """
    share = 0.25 if progress < 0.12 else 1.0
    return {**_TALK, **{task: weight * share for task, weight in _TOOLS.items()}}


def drill_share(progress: float) -> float:
    """Return the share of samples that only copy random tokens."""
    return max(0.06, 0.25 - progress)
