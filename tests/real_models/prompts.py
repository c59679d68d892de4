"""Prompts of different kinds for a model that chats."""

PROMPTS: dict[str, str] = {
    "capital": "What is the capital of France?",
    "why": "Why is the sky blue?",
    "arithmetic": "What is 17 + 25?",
    "yes or no": "Is the Sun a star? Answer yes or no.",
    "definition": "Define 'entropy' in one sentence.",
    "advice": "How do I fall asleep faster?",
    "greeting": "Hello, how are you?",
    "one word": "Hi",
    "Python": "Write a Python function that reverses a string.",
    "Rust": "Explain this line of Rust: let total: u32 = values.iter().sum();",
    "SQL": "Write a SQL query that counts the users of each country.",
    "shell": "Which command shows the size of a directory on Linux?",
    "bug": "What is wrong here?\n\ndef add(a, b):\n    return a - b",
    "regular expression": "Write a regular expression for a date such as 2026-11-28.",
    "numbered list": "List three planets, numbered.",
    "bullet list": "Name four kinds of bread, one on each line, with a dash.",
    "table": "Make a Markdown table of two animals and their number of legs.",
    "counting": "Count from 1 to 20.",
    "French": "Quelle est la capitale de l'Italie ?",
    "German": "Erkläre in einem Satz, was ein Computer ist.",
    "Spanish": "¿Cuántos días tiene una semana?",
    "Japanese": "日本の首都はどこですか。",
    "Russian": "Как называется столица России?",
    "translation": "Translate into Spanish: 'Good morning, my friend.'",
    "emoji": "What does 👩‍🚀🚀 mean?",
    "JSON": 'Return {"name": "Ada", "age": 36} with the age increased by one.',
    "extraction": "Ada Lovelace was born on 10 December 1815 in London. Give her birth date as JSON.",
    "story": "Begin a story about a lighthouse and a storm.",
    "poem": "Write two lines that rhyme with 'light'.",
    "document": (
        "Summarize this text in one sentence.\n\n"
        "A lighthouse is a tower with a lamp that guides ships at night. The first ones were fires on hills "
        "beside a harbor. Later, towers of stone raised the fire, so that it was seen from further away. In "
        "the eighteenth century lamps that burned oil took the place of open fires, and mirrors behind them "
        "sent the light in one direction. The lens that Augustin Fresnel designed in 1822 bends the light of "
        "one lamp into a narrow beam that is seen at a distance of thirty kilometers. Electric lamps came at "
        "the end of the nineteenth century, and today nearly all lighthouses work by themselves. Ships find "
        "their way by satellite, but many captains still look for the light, because it needs no battery, no "
        "receiver and no map, and because each lighthouse blinks in a rhythm of its own."
    ),
}
"""Questions by kind."""
