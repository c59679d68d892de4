"""One turn of the tool runner of Anthropic's SDK, on a thread."""

import json
import sys

import anthropic

URL, MODEL, QUESTION, RESULT = sys.argv[1:]


@anthropic.beta_tool
def get_weather(city: str) -> str:
    """Get the weather of a city

    Args:
        city: name of the city
    """
    return RESULT


runner = anthropic.Anthropic(base_url=URL, api_key="dummy").beta.messages.tool_runner(
    model=MODEL, max_tokens=300, tools=[get_weather], messages=[{"role": "user", "content": QUESTION}]
)
*_, last = runner
answer = "".join(block.text for block in last.content if block.type == "text")
print(json.dumps({"protocol": "threads", "answer": answer}))
