"""The state machine that turns generated text into events.

Imported by mlxctl.formats.parsers only.
"""

from mlxctl.formats.parsers.machine.answer_events import LogprobsBetween
from mlxctl.formats.parsers.machine.answer_machine import AnswerMachine, extract

__all__ = ["AnswerMachine", "LogprobsBetween", "extract"]
