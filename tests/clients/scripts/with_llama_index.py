"""One tool-calling turn per protocol with LlamaIndex."""

import asyncio
import json
import sys

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.llms.ollama import Ollama
from llama_index.llms.openai_like import OpenAILike

URL, MODEL, QUESTION, RESULT = sys.argv[1:]
CONTEXT = 8192


def get_weather(city: str) -> str:
    """Get the weather of a city"""
    return RESULT


async def turn(model: FunctionCallingLLM) -> str:
    """Let an agent call the tool and answer; it streams."""
    return str(await FunctionAgent(tools=[get_weather], llm=model, system_prompt="").run(QUESTION))


for protocol, chosen in (
    (
        "chat",
        OpenAILike(
            model=MODEL,
            api_base=f"{URL}/v1",
            api_key="dummy",
            temperature=0,
            is_chat_model=True,
            is_function_calling_model=True,
            context_window=CONTEXT,
        ),
    ),
    ("ollama", Ollama(model=MODEL, base_url=URL, temperature=0, context_window=CONTEXT)),
):
    print(json.dumps({"protocol": protocol, "answer": asyncio.run(turn(chosen))}))
