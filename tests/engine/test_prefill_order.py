"""Order of prompts of which parts are cached."""

from tests.engine.stepped_engine import SteppedEngine

CONVERSATION = [10 + number % 80 for number in range(1200)]


def test_next_turn_of_a_cached_conversation_overtakes_a_long_new_prompt() -> None:
    engine = SteppedEngine("qwen3")
    first = engine.submit(CONVERSATION)
    engine.run(lambda: len(engine.tokens(first)) == 3)
    new = engine.submit([95 - number % 70 for number in range(1000)])
    engine.run(lambda: engine.stats().num_prompt_tokens > len(CONVERSATION))

    turn = engine.submit([*CONVERSATION, *engine.tokens(first), 7, 8, 9])
    engine.run(lambda: bool(engine.tokens(turn)))

    assert engine.num_cached_tokens(turn) >= len(CONVERSATION) - 1
    assert not engine.tokens(new)
