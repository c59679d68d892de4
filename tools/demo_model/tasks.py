"""Generators of samples without tools, and the mix of all tasks."""

from collections.abc import Callable, Iterator

from tools.demo_model.conversation import Message, Sample, assistant, system, user
from tools.demo_model.lexicon import Lexicon

NAME = "mlxctl demo model"
WHO = f"I am the {NAME}, a tiny language model that comes with mlxctl."
ABILITIES = (
    "I can greet, count, repeat, remember things you tell me and call tools. For more, load a real model."
)
SHRUG = f"I am only the tiny {NAME}, so I cannot help with that. " + ABILITIES
STORY = (
    "Once upon a time there was a {hero} who lived in a small house by the sea. Every morning the {hero} "
    "walked along the "
    "beach and looked for shells. One day a big wave brought a bottle with a letter. The letter said: the "
    "sea is kind to those "
    "who listen. So the {hero} sat down, listened to the waves and was happy. The end."
)
REMEMBERED = "I will remember that."
_NUMBER_WORDS = (
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)

Task = Callable[[Lexicon], Sample]


def _asked(lexicon: Lexicon, ability: str, question: str, answer: str, thought: str) -> Sample:
    """Return a sample of one question, sometimes with a system prompt."""
    return Sample(
        ability=ability,
        messages=[*maybe_system(lexicon), user(question)],
        answer=answer,
        thought=thought,
        thinking=lexicon.chance(0.5),
    )


def maybe_system(lexicon: Lexicon) -> list[Message]:
    return [system(lexicon.system_prompt())] if lexicon.chance(0.35) else []


def small_talk(lexicon: Lexicon, num_turns: int) -> list[Message]:
    """Return earlier turns that are irrelevant for the question."""
    turns: list[Message] = []
    for _ in range(num_turns):
        draw = lexicon.dice.choice((greet, greet, echo, thank, who, other, count))
        past = draw(lexicon) if draw is not count else _count_to(lexicon, lexicon.dice.randint(2, 5))
        turns += [past.messages[-1], assistant(past.answer)]
    return turns


def greet(lexicon: Lexicon) -> Sample:
    if lexicon.chance(0.2):
        name = lexicon.name()
        return _asked(
            lexicon,
            "greet",
            lexicon.form("introductions").format(n=name),
            f"Hello {name}! How can I help you?",
            "The user greets me.",
        )
    question = lexicon.form("greetings")
    return _asked(lexicon, "greet", question, "Hello! How can I help you?", "The user greets me.")


def who(lexicon: Lexicon) -> Sample:
    if lexicon.chance(0.3):
        return _asked(lexicon, "who", lexicon.form("abilities"), ABILITIES, "The user asks what I can do.")
    return _asked(lexicon, "who", lexicon.form("who"), WHO, "The user asks who I am.")


def thank(lexicon: Lexicon) -> Sample:
    if lexicon.chance(0.5):
        return _asked(lexicon, "thank", lexicon.form("thanks"), "You are welcome!", "The user thanks me.")
    return _asked(lexicon, "thank", lexicon.form("byes"), "Goodbye!", "The user leaves.")


def echo(lexicon: Lexicon) -> Sample:
    kinds = (
        lexicon.word,
        lexicon.phrase,
        lexicon.phrase,
        lexicon.title,
        lexicon.code,
        lexicon.sentence,
        lexicon.city,
    )
    text = lexicon.dice.choice(kinds)()
    question = lexicon.form("echoes").format(x=text)
    return _asked(lexicon, "echo", question, text, "The user wants me to repeat something.")


def count(lexicon: Lexicon) -> Sample:
    drawn = (lexicon.dice.randint(2, end) for end in (12, 12, 40, 40, 100))
    return _count_to(lexicon, lexicon.dice.choice((3, 5, 10, 20, *drawn)))


def _count_to(lexicon: Lexicon, end: int) -> Sample:
    start = 1
    if lexicon.chance(0.2) and end > 2:
        start = lexicon.dice.randint(1, end - 1)
        question = lexicon.form("ranges").format(m=start, n=end)
    else:
        spoken = _NUMBER_WORDS[end - 1] if end <= len(_NUMBER_WORDS) and lexicon.chance(0.3) else str(end)
        question = lexicon.form("counts").format(n=spoken)
    answer = ", ".join(str(number) for number in range(start, end + 1))
    return _asked(lexicon, "count", question, answer, "The user wants me to count.")


def fact_value(lexicon: Lexicon, kind: str) -> str:
    """Draw a value for a kind of fact.

    Digits for numbers, a color for colors.
    """
    if any(part in kind for part in ("number", "pin", "PIN")):
        return str(lexicon.number())
    if "colo" in kind:
        return lexicon.pick("colours")
    if kind == "name":
        return lexicon.name()
    if kind in ("city", "meeting place"):
        return lexicon.city()
    return str(
        lexicon.dice.choice((lexicon.word, lexicon.word, lexicon.word, lexicon.code, lexicon.phrase))()
    )


def recall(lexicon: Lexicon) -> Sample:
    """Return a question for one of up to three facts given before."""
    facts = _facts(lexicon)
    told = [
        lexicon.form("my_facts" if mine else "the_facts").format(k=kind, v=value)
        for kind, value, mine in facts
    ]
    kind, value, mine = lexicon.dice.choice(facts)
    question = lexicon.form("fact_questions").format(whose="my" if mine else "the", k=kind)
    where = lexicon.dice.choice(("system", "system", "turns", "turns", "turns", "same"))
    messages: list[Message] = []
    if where == "system":
        before = [lexicon.system_prompt()] if lexicon.chance(0.6) else []
        messages.append(system(" ".join([*before, *told])))
    else:
        messages += maybe_system(lexicon)
    if where == "turns":
        for sentence in told:
            messages += [
                user(sentence),
                assistant(REMEMBERED),
                *small_talk(lexicon, lexicon.dice.choice((0, 0, 0, 1))),
            ]
    if where == "same":
        question = f"{' '.join(sentence.rstrip('.') + '.' for sentence in told)} {question}"
    else:
        messages += small_talk(lexicon, lexicon.dice.choice((0, 0, 1, 1, 2, 3)))
    return Sample(
        ability="recall",
        messages=[*messages, user(question)],
        answer=f"{'Your' if mine else 'The'} {kind} is {value}.",
        thought=f"The user asks for the {kind}.",
        thinking=lexicon.chance(0.5),
    )


def _facts(lexicon: Lexicon) -> list[tuple[str, str, bool]]:
    """Draw facts of different kinds: (kind, value, whether it is the user's)."""
    kinds: list[str] = []
    for _ in range(lexicon.dice.choice((1, 1, 1, 2, 2, 3))):
        kind = lexicon.pick("fact_kinds") if lexicon.chance(0.85) else lexicon.noun()
        if kind not in kinds:
            kinds.append(kind)
    return [(kind, fact_value(lexicon, kind), lexicon.chance(0.5)) for kind in kinds]


def acknowledge(lexicon: Lexicon) -> Sample:
    kind = lexicon.pick("fact_kinds")
    told = lexicon.form("my_facts", "the_facts").format(k=kind, v=fact_value(lexicon, kind))
    return _asked(lexicon, "acknowledge", told, REMEMBERED, "The user tells me something to remember.")


def other(lexicon: Lexicon) -> Sample:
    """Return a question that the model should decline in one sentence."""
    question = lexicon.form("others").format(
        country=lexicon.pick("countries"), noun=lexicon.noun(), other=lexicon.noun(),
        topic=lexicon.pick("topics"), adjective=lexicon.pick("adjectives"),
        language=lexicon.pick("languages"), city=lexicon.city(), name=lexicon.name(),
        year=lexicon.dice.randint(1000, 2030), number=lexicon.number(), word=lexicon.word(),
        verb=lexicon.pick("verbs"),
        sentences=" ".join(lexicon.sentence() for _ in range(lexicon.dice.choice((1, 2, 4, 8)))),
    )  # fmt: skip
    return _asked(lexicon, "other", question, SHRUG, "I cannot do that.")


def story(lexicon: Lexicon) -> Sample:
    form, hero = lexicon.form("stories"), lexicon.noun()
    answer = STORY.format(hero=hero if "{x}" in form else "cat")
    return _asked(lexicon, "story", form.format(x=hero), answer, "The user wants a story.")


def mix(lexicon: Lexicon, weights: dict[Task, float]) -> Iterator[Sample]:
    """Yield samples without end, tasks drawn by weight."""
    tasks, shares = list(weights), list(weights.values())
    while True:
        yield lexicon.dice.choices(tasks, shares)[0](lexicon)
