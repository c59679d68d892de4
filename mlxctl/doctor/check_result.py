"""What the doctor says of one thing: how it is, and what to do about it."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "advice", "broken"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """`facts` say how it is, `remedy` what to do.

    Only what is broken keeps mlxctl from working; advice makes it work better.
    """

    name: str
    verdict: Verdict
    facts: str
    remedy: str | None = None
