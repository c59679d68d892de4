"""Result of one check."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "advice", "broken"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """`facts` describe the state, `remedy` the fix.

    Only `broken` prevents mlxctl from working; `advice` improves it.
    """

    name: str
    verdict: Verdict
    facts: str
    remedy: str | None = None
