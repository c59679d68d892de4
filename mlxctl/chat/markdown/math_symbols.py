"""Unicode characters of LaTeX's math commands.

Names and meaning are those of LaTeX with amsmath and amssymb.
"""

import unicodedata
from collections.abc import Mapping


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


def _pairs(text: str) -> dict[str, str]:
    found = text.split()
    return dict(zip(found[::2], found[1::2], strict=True))


_GREEK = words(
    """alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau
    upsilon phi chi psi omega"""
)


def _greek() -> dict[str, str]:
    found: dict[str, str] = {}
    for name in _GREEK:
        letter = "LAMDA" if name == "lambda" else name.upper()
        found[name] = unicodedata.lookup(f"GREEK SMALL LETTER {letter}")
        found[name.capitalize()] = unicodedata.lookup(f"GREEK CAPITAL LETTER {letter}")
    return found


SYMBOLS: Mapping[str, str] = _greek() | _pairs(
    "varepsilon ε vartheta ϑ varpi ϖ varrho ϱ varsigma ς varphi φ phi ϕ digamma ϝ varkappa ϰ "
    "infty ∞ partial ∂ nabla ∇ hbar ℏ ell ℓ Re ℜ Im ℑ wp ℘ aleph ℵ beth ℶ imath ı jmath ȷ emptyset ∅ "
    "varnothing ∅ forall ∀ exists ∃ nexists ∄ neg ¬ lnot ¬ top ⊤ bot ⊥ angle ∠ measuredangle ∡ triangle △ "
    "square □ Box □ blacksquare ■ qed ∎ Diamond ◇ diamond ⋄ star ⋆ bigstar ★ checkmark ✓ degree ° prime ′ "
    "dagger † ddagger ‡ S § P ¶ copyright © pounds £ euro € yen ¥ complement ∁ eth ð mho ℧ surd √ "
    "sum ∑ prod ∏ coprod ∐ int ∫ iint ∬ iiint ∭ oint ∮ bigcup ⋃ bigcap ⋂ bigvee ⋁ bigwedge ⋀ bigoplus ⨁ "
    "bigotimes ⨂ bigodot ⨀ biguplus ⨄ bigsqcup ⨆ "
    "ldots … dots … dotsc … dotso … dotsb ⋯ dotsm ⋯ cdots ⋯ vdots ⋮ ddots ⋱ "
    "langle ⟨ rangle ⟩ lfloor ⌊ rfloor ⌋ lceil ⌈ rceil ⌉ lvert | rvert | vert | lVert ‖ rVert ‖ Vert ‖ "
    "lbrace { rbrace } lbrack [ rbrack ] backslash \\ llbracket ⟦ rrbracket ⟧ ulcorner ⌜ urcorner ⌝ "
    "colon : cdotp · slash / lt < gt > clubsuit ♣ diamondsuit ♢ heartsuit ♡ spadesuit ♠ natural ♮ flat ♭ "
    "sharp ♯ AA Å ss ß ae æ o ø"
)
"""Letters and other signs without space around them."""

OPERATORS: Mapping[str, str] = _pairs(
    "pm ± mp ∓ times × div ÷ cdot · ast ∗ circ ∘ bullet • oplus ⊕ ominus ⊖ otimes ⊗ oslash ⊘ odot ⊙ "
    "cap ∩ cup ∪ uplus ⊎ sqcap ⊓ sqcup ⊔ vee ∨ lor ∨ wedge ∧ land ∧ setminus ∖ smallsetminus ∖ wr ≀ amalg ⨿ "
    "ltimes ⋉ rtimes ⋊ bowtie ⋈ "
    "leq ≤ le ≤ leqslant ≤ geq ≥ ge ≥ geqslant ≥ neq ≠ ne ≠ equiv ≡ approx ≈ approxeq ≊ cong ≅ sim ∼ simeq ≃ "
    "asymp ≍ doteq ≐ propto ∝ varpropto ∝ ll ≪ gg ≫ prec ≺ succ ≻ preceq ≼ succeq ≽ coloneqq ≔ coloneq ≔ "
    "triangleq ≜ lesssim ≲ gtrsim ≳ nleq ≰ ngeq ≱ nless ≮ ngtr ≯ "
    "in ∈ notin ∉ ni ∋ subset ⊂ supset ⊃ subseteq ⊆ supseteq ⊇ subsetneq ⊊ supsetneq ⊋ nsubseteq ⊈ "
    "sqsubseteq ⊑ sqsupseteq ⊒ mid ∣ nmid ∤ parallel ∥ nparallel ∦ perp ⊥ vdash ⊢ dashv ⊣ models ⊨ vDash ⊨ "
    "Vdash ⊩ therefore ∴ because ∵ lhd ⊲ rhd ⊳ trianglelefteq ⊴ "
    "to → rightarrow → leftarrow ← gets ← leftrightarrow ↔ Rightarrow ⇒ Leftarrow ⇐ Leftrightarrow ⇔ "
    "implies ⟹ impliedby ⟸ iff ⟺ longrightarrow ⟶ longleftarrow ⟵ Longrightarrow ⟹ Longleftarrow ⟸ "
    "Longleftrightarrow ⟺ mapsto ↦ longmapsto ⟼ hookrightarrow ↪ hookleftarrow ↩ rightharpoonup ⇀ "
    "rightleftharpoons ⇌ leadsto ⇝ rightsquigarrow ⇝ uparrow ↑ downarrow ↓ updownarrow ↕ Uparrow ⇑ "
    "Downarrow ⇓ nearrow ↗ searrow ↘ swarrow ↙ nwarrow ↖ twoheadrightarrow ↠ nrightarrow ↛"
)
"""Operators, relations and arrows, which have space around them."""

FUNCTIONS = words(
    """sin cos tan cot sec csc sinh cosh tanh coth arcsin arccos arctan exp log ln lg lim limsup liminf max
    min sup inf det dim ker hom arg deg gcd lcm Pr mod sgn argmax argmin"""
)
"""Names that LaTeX writes upright."""

ACCENTS: Mapping[str, str] = {
    "hat": "\u0302",
    "widehat": "\u0302",
    "tilde": "\u0303",
    "widetilde": "\u0303",
    "bar": "\u0304",
    "overline": "\u0305",
    "dot": "\u0307",
    "ddot": "\u0308",
    "vec": "\u20d7",
    "overrightarrow": "\u20d7",
    "check": "\u030c",
    "breve": "\u0306",
    "acute": "\u0301",
    "grave": "\u0300",
    "underline": "\u0332",
}
"""Combining characters of accents."""

ALPHABETS: Mapping[str, str] = {
    "mathbb": "DOUBLE-STRUCK",
    "Bbb": "DOUBLE-STRUCK",
    "mathcal": "SCRIPT",
    "mathscr": "SCRIPT",
    "mathfrak": "FRAKTUR",
}
"""Unicode's names of alphabets; the other fonts are not shown."""

_SUPER = (
    "0123456789+-=()abcdefghijklmnoprstuvwxyzABDEGHIJKLMNOPRTUVWβγδθφχ′*∗†∘",
    "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻᴬᴮᴰᴱᴳᴴᴵᴶᴷᴸᴹᴺᴼᴾᴿᵀᵁⱽᵂᵝᵞᵟᶿᵠᵡ′**†°",
)
_SUB = ("0123456789+-=()aehijklmnoprstuvxβγρφχ", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓᵦᵧᵨᵩᵪ")
SUPERSCRIPTS: Mapping[str, str] = dict(zip(*_SUPER, strict=True))
SUBSCRIPTS: Mapping[str, str] = dict(zip(*_SUB, strict=True))


def in_alphabet(letter: str, alphabet: str) -> str:
    """Return a letter or digit in an alphabet of Unicode.

    It is returned itself where Unicode has none.
    """
    kind = "CAPITAL" if letter.isupper() else "SMALL"
    if not letter.isascii() or not letter.isalnum():
        return letter
    if letter.isdigit():
        names = [f"MATHEMATICAL {alphabet} DIGIT {unicodedata.name(letter).split()[-1]}"]
    else:
        ending = f"{kind} {letter.upper()}"
        # Some letters are older than the alphabets and have other names: ℝ, ℒ, ℭ.
        names = [f"MATHEMATICAL {alphabet} {ending}", f"{alphabet} {ending}"]
        if alphabet == "FRAKTUR":
            names.append(f"BLACK-LETTER {ending}")
    for name in names:
        try:
            return unicodedata.lookup(name)
        except KeyError:
            continue
    return letter
