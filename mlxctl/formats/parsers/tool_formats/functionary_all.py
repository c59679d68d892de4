"""Text of Functionary 3.2: a message to `all`. It has no thinking."""

from mlxctl.formats.parsers.declarations import ThinkingParser

THINKING = ThinkingParser(
    id="functionary_all",
    prompt_ends=(">>>",),
    identifying_texts=(">>>all",),
    wrappers=(">>>all\n",),
)
