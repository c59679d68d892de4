"""Math and task lists of answers in the terminal."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxctl.chat.markdown.math import math_text

from .test_markdown import drawn

FORMULAS = {
    r"\frac{-b \pm \sqrt{b^2 - 4ac}}{2a}": "(-b ± √(b² - 4ac))/(2a)",
    r"\int_0^\infty e^{-x^2}\,dx = \frac{\sqrt{\pi}}{2}": "∫₀^∞ e^(-x²) dx = √π/2",
    r"\sum_{i=1}^{n} i = \frac{n(n+1)}{2}": "∑ᵢ₌₁ⁿ i = (n(n+1))/2",
    r"x\in\mathbb{R},\text{ if }x\leq 0": "x ∈ ℝ, if x ≤ 0",
    r"\frac{dy}{dx}=2\sin\theta\cos\theta": "dy/dx=2 sin θ cos θ",
    r"\sqrt[3]{x} \log_2 8 90^\circ 10^{-3}": "∛x log₂ 8 90° 10⁻³",
    r"\begin{pmatrix} a & b \\ c & d \end{pmatrix}": "(a b; c d)",
    r"f(x)=\begin{cases} 1 & x>0 \\ 0 & \text{else}\end{cases}": "f(x)={1, x>0; 0, else",
    r"\vec{v}\hat{x} \not= \boxed{42}": "v⃗x̂ ≠ [42]",
    r"\binom{n}{k} \pmod{7} \mathcal{O}(n)": "C(n, k) (mod 7) 𝒪(n)",
    r"\unknown{a} + v_{total}": r"\unknown{a} + vₜₒₜₐₗ",
}


@pytest.mark.parametrize("source", FORMULAS)
def test_formula_is_written_in_unicode(source: str) -> None:
    assert math_text(source) == FORMULAS[source]


@pytest.mark.parametrize("source", [r"\frac{a}{", "}", r"\begin{cases} 1", "{" * 50 + "}" * 50, "x" * 5000])
def test_unreadable_formula_is_none(source: str) -> None:
    assert math_text(source) is None


@settings(max_examples=100, deadline=None)
@given(st.text(r"\{}^_& fracsqtbegind[]x2'", max_size=60))
def test_any_text_is_read_or_refused(source: str) -> None:
    assert math_text(source) is None or "\n" not in math_text(source)


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("Energy is $E = mc^2$, $x$ and $n+1$.", "Energy is E = mc², x and n+1."),
        (r"\(a_1\) and \[a^2\] and $$y = 1$$ here, **$\pi$**", "a₁ and a² and y = 1 here, π"),
        ("So\n\\[\nx = 1\n+ 2\n\\]\nand", "So\n\n  x = 1 + 2\n\nand"),
        ("$$\n\\begin{aligned} a &= b \\\\ &= c \\end{aligned}\n$$", "  a = b\n  = c"),
        ("1. Step:\n   $$\n   x^2\n   $$", " 1. Step:\n      x²"),
        ("`$x^2$` is $x^2$", "$x^2$ is x²"),
        ("open\n$$\nx^2 +", "open\n\n$$\nx^2 +"),
    ],
)
def test_math_in_an_answer_is_shown_in_unicode(source: str, shown: str) -> None:
    assert drawn(source) == shown


def test_task_list_has_boxes() -> None:
    assert drawn("- [ ] buy *milk*\n- [x] pay\n  - [X] all\n- [y] other") == (
        " ☐ buy milk\n ☑ pay\n    ☑ all\n • [y] other"
    )
    assert drawn("1. [ ] one\n2. [x] two") == " 1. ☐ one\n 2. ☑ two"


def test_formula_changes_once_while_it_is_streamed() -> None:
    source = "So\n$$\n\\frac{a}{b} = c\n$$\n"
    seen = [drawn(source[:end]) for end in range(len(source) - 4, len(source))]
    assert [r"\frac" in shown for shown in seen] == [True, True, True, False]
