"""The synthetic task generator: conversations without tools, and the mix of all tasks."""

from collections.abc import Callable, Iterator

from mlxctl.demo.recipe.conversation import Message, Sample, assistant, system, user
from mlxctl.demo.recipe.lexicon import Lexicon

NAME = "mlxctl demo model"
WHO = f"I am the {NAME}, a tiny language model that comes with mlxctl."
ABILITIES = "I can greet, count, repeat, remember things you tell me and call tools. For more, load a real model."
SHRUG = f"I am only the tiny {NAME}, so I cannot help with that. " + ABILITIES
STORY = (
    "Once upon a time there was a {hero} who lived in a small house by the sea. Every morning the {hero} walked along the "
    "beach and looked for shells. One day a big wave brought a bottle with a letter. The letter said: the sea is kind to those "
    "who listen. So the {hero} sat down, listened to the waves and was happy. The end."
)

REMEMBERED = "I will remember that."

_GREETINGS = (
    "Hello", "Hi", "Hey", "Hello!", "Hi!", "Hey!", "Hello there", "Hi there!", "Hey there", "Good morning", "Good evening!",
    "Good afternoon", "Greetings", "hello", "hi", "hey", "HELLO", "Hello, how are you?", "Hi, how are you?", "How are you?",
    "Hello world", "Hi, nice to meet you.", "Good day!", "Hello, assistant", "hi there", "Hey, how is it going?", "Howdy",
    "Hello, are you there?", "Hi again", "What's up?", "Say hello", "Say hello.", "Say hi", "Say hi!", "Say hello to me.",
    "Greet me.", "Please say hello", "Just say hi.", "Hi bot", "yo", "Hello, can you hear me?", "ping", "test",
)  # fmt: skip
_WHO = (
    "Who are you?", "What are you?", "What is your name?", "What's your name?", "Which model are you?", "What model are you?",
    "Tell me who you are.", "Introduce yourself.", "Are you a robot?", "Are you an AI?", "Are you ChatGPT?", "Are you Claude?",
    "Hello, who are you?", "Hi! Who are you?", "who are you", "Please introduce yourself.", "Are you a human?", "Who made you?",
    "Tell me about yourself.", "What kind of model are you?", "Do you have a name?", "Who am I talking to?", "Describe yourself.",
)  # fmt: skip
_CAN = (
    "What can you do?", "How can you help me?", "What are your abilities?", "What are you able to do?", "Can you help me?", "Help",
    "help me", "What can I ask you?", "List your skills.", "What are you good at?", "What do you know?", "I need help.",
)  # fmt: skip
_THANKS = ("Thank you", "Thanks", "Thank you!", "Thanks a lot!", "thanks", "Great, thank you.", "Thank you very much.", "Perfect, thanks!")
_BYES = ("Goodbye", "Bye", "Bye!", "See you", "Goodbye!", "See you later.", "Good night", "bye bye", "I have to go.")
_ECHOES = (
    "Say {x}", "Say {x}.", "Say: {x}", 'Say "{x}"', 'Say "{x}".', "Repeat: {x}", "Repeat after me: {x}", "Repeat {x}", "Echo {x}",
    "Echo: {x}", 'Repeat "{x}".', "Please repeat: {x}", "Reply with {x}", 'Reply with "{x}"', "Reply with exactly: {x}", "Write {x}",
    "Answer with {x}.", "Respond with: {x}", "Repeat the following text: {x}", "Please say {x}.", "Can you say {x}?", "Print {x}",
    'Reply with exactly "{x}"', "Say the word {x}.", "Just say {x}", "Reply with the word {x}", "Type {x}", "Say {x} and nothing else.",
    'Write the word "{x}".', "Output: {x}", "Repeat this: {x}", 'Please write "{x}"',
)  # fmt: skip
_COUNTS = (
    "Count to {n}", "Count to {n}.", "Count from 1 to {n}", "Count from 1 to {n}.", "Please count to {n}.", "Can you count to {n}?",
    "count to {n}", "Count up to {n}.", "List the numbers from 1 to {n}.", "Write the numbers from 1 to {n}", "Count from one to {n}.",
)  # fmt: skip
_RANGES = ("Count from {m} to {n}", "Count from {m} to {n}.", "List the numbers from {m} to {n}.", "Please count from {m} to {n}.")
_NUMBER_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_TELLS = (
    "My {k} is {v}.", "Remember: my {k} is {v}.", "Remember that my {k} is {v}.", "Please remember my {k}: {v}.", "my {k} is {v}",
    "Note that my {k} is {v}.", "Remember this: my {k} is {v}", "Keep in mind that my {k} is {v}.", "Hi, my {k} is {v}.",
)  # fmt: skip
_STATES = (
    "The {k} is {v}.", "Remember the {k}: {v}.", "Remember: the {k} is {v}.", "Remember the {k} {v}.", "Remember that the {k} is {v}.",
    "Please remember the {k} {v}.", "The {k} is {v}. Remember it.", "Note the {k}: {v}", "Keep this in mind: the {k} is {v}",
    "Please remember this {k}: {v}.", "the {k} is {v}",
)  # fmt: skip
_QUESTIONS = (
    "What is {whose} {k}?", "What's {whose} {k}?", "Tell me {whose} {k}.", "Do you remember {whose} {k}?", "What was {whose} {k}?",
    "what is {whose} {k}", "Repeat {whose} {k}.", "Please tell me {whose} {k}.", "Can you tell me {whose} {k}?", "Now tell me {whose} {k}",
    "What is {whose} {k}? Answer briefly.", "Say {whose} {k}.", "So what is {whose} {k}?",
)  # fmt: skip
_OTHERS = (
    "What is the capital of {country}?", "Write a poem about {noun}.", "Explain {topic} to me.", "How do I cook {noun}?",
    "Who invented the {noun}?", "Why is the {noun} {adjective}?", "Write a function that sorts a list.", "What is the meaning of life?",
    "Summarize the following text: {sentences}", "{sentences}", "Translate {noun} into {language}.", "Tell me a joke.",
    "Tell me a joke about a {noun}.", "Can you write code?", "Fix this bug: {word}({noun}) fails.", "How many {noun}s are there?",
    "What do you think about {noun} and {other}?", "Is {city} bigger than {country}?", "Give me ideas for a {adjective} {noun}.",
    "Which is better, {noun} or {other}?", "Write an email to {name} about the {topic}.", "What happened in {year}?",
    "Solve x + {number} = {word}.", "How does a {noun} work?", "Compare {noun} with {other}.", "List three {adjective} {noun}s.",
    "I feel {adjective} today.", "Do you like {noun}?", "Make a plan for a trip to {country}.", "{noun} {other} {adjective}",
    "Why do {noun}s {verb} the {other}?", "When was {name} born?", "Where is {country}?", "Should I {verb} the {noun}?", "{word}",
    "What is a {noun}?", "What does {name} do with the {noun}?", "Please {verb} the {topic} of the {noun}.", "Draw a {noun}.",
    "def {noun}(x): return x", "Qu'est-ce que c'est, {noun}?", "Wie geht es dir?", "¿Qué es {noun}?", "你好，{noun}是什么？",
    "Who was the first {noun}?", "How old is the {noun}?", "Prove that {number} is prime.", "What is {number} times {year}?",
    "What is the best {noun} in {country}?", "Describe the {adjective} {noun}.", "Give me advice.", "Play chess with me.",
    "What is the difference between {noun} and {other}?", "Generate a {noun} for my {other}.", "Name a {adjective} {noun}.",
)  # fmt: skip
_STORIES = ("Tell me a story.", "Tell me a story about a {x}.", "Write a story about a {x}.", "Write a short story about a {x}", "Tell me a long story")

Task = Callable[[Lexicon], Sample]


def _asked(lexicon: Lexicon, ability: str, question: str, answer: str, thought: str) -> Sample:
    """Make a sample of one question, now and then below a system prompt."""
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
    """Give past turns that have nothing to do with what comes next."""
    turns: list[Message] = []
    for _ in range(num_turns):
        draw = lexicon.dice.choice((greet, greet, echo, thank, who, other, count))
        past = draw(lexicon) if draw is not count else _count_to(lexicon, lexicon.dice.randint(2, 5))
        turns += [past.messages[-1], assistant(past.answer)]
    return turns


def greet(lexicon: Lexicon) -> Sample:
    if lexicon.chance(0.2):
        name = lexicon.name()
        form = lexicon.dice.choice(("Hello, I am {n}.", "Hi, I'm {n}!", "Hello! My name is {n}.", "Hey, this is {n}."))
        return _asked(lexicon, "greet", form.format(n=name), f"Hello {name}! How can I help you?", "The user greets me.")
    question = lexicon.dice.choice(_GREETINGS)
    return _asked(lexicon, "greet", question, "Hello! How can I help you?", "The user greets me.")


def who(lexicon: Lexicon) -> Sample:
    if lexicon.chance(0.3):
        return _asked(lexicon, "who", lexicon.dice.choice(_CAN), ABILITIES, "The user asks what I can do.")
    return _asked(lexicon, "who", lexicon.dice.choice(_WHO), WHO, "The user asks who I am.")


def thank(lexicon: Lexicon) -> Sample:
    if lexicon.chance(0.5):
        return _asked(lexicon, "thank", lexicon.dice.choice(_THANKS), "You are welcome!", "The user thanks me.")
    return _asked(lexicon, "thank", lexicon.dice.choice(_BYES), "Goodbye!", "The user leaves.")


def echo(lexicon: Lexicon) -> Sample:
    text = lexicon.dice.choice((lexicon.word, lexicon.phrase, lexicon.phrase, lexicon.title, lexicon.code, lexicon.sentence, lexicon.city))()
    question = lexicon.dice.choice(_ECHOES).format(x=text)
    return _asked(lexicon, "echo", question, text, "The user wants me to repeat something.")


def count(lexicon: Lexicon) -> Sample:
    return _count_to(lexicon, lexicon.dice.choice((3, 5, 10, 20, lexicon.dice.randint(2, 12), lexicon.dice.randint(2, 40))))


def _count_to(lexicon: Lexicon, end: int) -> Sample:
    start = 1
    if lexicon.chance(0.2) and end > 2:
        start = lexicon.dice.randint(1, end - 1)
        question = lexicon.dice.choice(_RANGES).format(m=start, n=end)
    else:
        spoken = _NUMBER_WORDS[end - 1] if end <= len(_NUMBER_WORDS) and lexicon.chance(0.3) else str(end)
        question = lexicon.dice.choice(_COUNTS).format(n=spoken)
    answer = ", ".join(str(number) for number in range(start, end + 1))
    return _asked(lexicon, "count", question, answer, "The user wants me to count.")


def add(lexicon: Lexicon) -> Sample:
    one, other_number = lexicon.dice.randint(0, 9), lexicon.dice.randint(0, 9)
    form = lexicon.dice.choice(("What is {a}+{b}?", "What is {a} + {b}?", "{a} + {b}", "{a}+{b}=", "What is {a} plus {b}?", "Add {a} and {b}."))
    answer = str(one + other_number)
    return _asked(lexicon, "add", form.format(a=one, b=other_number), answer, "The user wants a sum.")


def fact_value(lexicon: Lexicon, kind: str) -> str:
    """Draw a value that suits the kind of fact: digits for numbers, a colour for colours, and so on."""
    if any(part in kind for part in ("number", "pin", "PIN")):
        return str(lexicon.number())
    if "colo" in kind:
        return lexicon.pick("colours")
    if kind == "name":
        return lexicon.name()
    if kind in ("city", "meeting place"):
        return lexicon.city()
    return str(lexicon.dice.choice((lexicon.word, lexicon.word, lexicon.word, lexicon.code, lexicon.phrase))())


def recall(lexicon: Lexicon) -> Sample:
    """Tell one to three facts in the system prompt or in earlier turns, then ask for one of them."""
    facts = _facts(lexicon)
    told = [lexicon.dice.choice(_TELLS if mine else _STATES).format(k=kind, v=value) for kind, value, mine in facts]
    kind, value, mine = lexicon.dice.choice(facts)
    question = lexicon.dice.choice(_QUESTIONS).format(whose="my" if mine else "the", k=kind)
    where = lexicon.dice.choice(("system", "system", "turns", "turns", "turns", "same"))
    messages: list[Message] = []
    if where == "system":
        before = [lexicon.system_prompt()] if lexicon.chance(0.6) else []
        messages.append(system(" ".join([*before, *told])))
    else:
        messages += maybe_system(lexicon)
    if where == "turns":
        for sentence in told:
            messages += [user(sentence), assistant(REMEMBERED), *small_talk(lexicon, lexicon.dice.choice((0, 0, 0, 1)))]
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
    """Draw facts of different kinds: (kind, value, whether it is the user's own)."""
    kinds: list[str] = []
    for _ in range(lexicon.dice.choice((1, 1, 1, 2, 2, 3))):
        kind = lexicon.pick("fact_kinds") if lexicon.chance(0.85) else lexicon.noun()
        if kind not in kinds:
            kinds.append(kind)
    return [(kind, fact_value(lexicon, kind), lexicon.chance(0.5)) for kind in kinds]


def acknowledge(lexicon: Lexicon) -> Sample:
    kind = lexicon.pick("fact_kinds")
    told = lexicon.dice.choice((*_TELLS, *_STATES)).format(k=kind, v=fact_value(lexicon, kind))
    return _asked(lexicon, "acknowledge", told, REMEMBERED, "The user tells me something to remember.")


def other(lexicon: Lexicon) -> Sample:
    """Ask for something that the model does not do; it should say so and end."""
    form = lexicon.dice.choice(_OTHERS)
    question = form.format(
        country=lexicon.pick("countries"), noun=lexicon.noun(), other=lexicon.noun(), topic=lexicon.pick("topics"),
        adjective=lexicon.pick("adjectives"), language=lexicon.pick("languages"), city=lexicon.city(), name=lexicon.name(),
        year=lexicon.dice.randint(1000, 2030), number=lexicon.number(), word=lexicon.word(), verb=lexicon.pick("verbs"),
        sentences=" ".join(lexicon.sentence() for _ in range(lexicon.dice.choice((1, 2, 4, 8)))),
    )  # fmt: skip
    return _asked(lexicon, "other", question, SHRUG, "I cannot do that.")


def story(lexicon: Lexicon) -> Sample:
    form, hero = lexicon.dice.choice(_STORIES), lexicon.noun()
    answer = STORY.format(hero=hero if "{x}" in form else "cat")
    return _asked(lexicon, "story", form.format(x=hero), answer, "The user wants a story.")


def mix(lexicon: Lexicon, weights: dict[Task, float]) -> Iterator[Sample]:
    """Draw samples for ever, each task as often as its weight says."""
    tasks, shares = list(weights), list(weights.values())
    while True:
        yield lexicon.dice.choices(tasks, shares)[0](lexicon)
