"""Valid bodies for each route: the seeds of mutations.

With as many fields as combine.
"""

from typing import Any

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "weather", "description": "Weather in a city", "parameters": SCHEMA}
TOOLS = [
    {"type": "function", "function": FUNCTION},
    {"type": "custom", "custom": {"name": "patch", "description": "Change files"}},
]
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
TURNS = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
    {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
]
SAMPLING = {"temperature": 0.7, "top_p": 0.9, "seed": 7, "stream": True}

BODIES: dict[str, list[dict[str, Any]]] = {
    "/v1/chat/completions": [
        {
            "model": "tiny",
            "messages": TURNS,
            "max_tokens": 4,
            "logprobs": True,
            "top_logprobs": 2,
            "n": 2,
            "stop": ["x", "yz"],
        },
        {
            "model": "tiny",
            "messages": TURNS[1:2],
            **SAMPLING,
            "max_completion_tokens": 3,
            "tools": TOOLS,
            "tool_choice": "auto",
            "parallel_tool_calls": True,
            "stream_options": {"include_usage": True},
            "logit_bias": {"5": 1.5},
            "reasoning_effort": "low",
            "chat_template_kwargs": {"enable_thinking": False},
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "city", "strict": True, "schema": SCHEMA},
            },
        },
    ],
    "/v1/completions": [
        {
            "model": "tiny",
            "prompt": "Once",
            "max_tokens": 3,
            "echo": True,
            "logprobs": 1,
            "n": 2,
            "best_of": 2,
        },
        {"model": "tiny", "prompt": ["Once", "Twice"], "max_tokens": 3, **SAMPLING, "stop": "."},
        {"model": "tiny", "prompt": [[40, 41, 42], [43]], "max_tokens": 0, "echo": True, "logprobs": 2},
        {"model": "tiny", "prompt": "Once", "max_tokens": 3, "guided_regex": "[a-z]{2}"},
        {
            "model": "tiny",
            "prompt": [1, 2, 3],
            "max_tokens": 3,
            "presence_penalty": 0.5,
            "min_p": 0.1,
            "top_k": 4,
        },
    ],
    "/v1/responses": [
        {
            "model": "tiny",
            "input": [
                {
                    "type": "message",
                    "role": "developer",
                    "content": [{"type": "input_text", "text": "Be brief."}],
                },
                {"role": "user", "content": "Hi"},
                {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
                {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "+a"},
                {"type": "custom_tool_call_output", "call_id": "c2", "output": "done"},
            ],
            "tools": [
                {"type": "function", **FUNCTION, "strict": False},
                {
                    "type": "custom",
                    "name": "patch",
                    "format": {"type": "grammar", "syntax": "regex", "definition": "[a-z+]+"},
                },
                {"type": "web_search"},
            ],
            "tool_choice": "auto",
            "reasoning": {"effort": "low", "summary": "auto"},
            "text": {"format": {"type": "json_schema", "name": "city", "schema": SCHEMA}},
            "include": ["reasoning.encrypted_content"],
            "max_output_tokens": 3,
            "truncation": "auto",
            "store": False,
            **SAMPLING,
        },
        {
            "model": "tiny",
            "input": "Hi",
            "instructions": "Be brief.",
            "max_output_tokens": 3,
            "metadata": {"a": "b"},
        },
    ],
    "/v1/messages": [
        {
            "model": "tiny",
            "max_tokens": 4,
            "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Rome"}}
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "t1", "content": "sunny", "is_error": False}
                    ],
                },
            ],
            "tools": [{"name": "weather", "description": "Weather", "input_schema": SCHEMA}],
            "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
            "thinking": {"type": "enabled", "budget_tokens": 1024},
            "stream": True,
        },
        {
            "model": "tiny",
            "max_tokens": 3,
            "messages": [{"role": "user", "content": "Hi"}],
            "stop_sequences": ["x"],
            "top_k": 3,
        },
    ],
    "/v1/messages/count_tokens": [
        {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}], "system": "Be brief."}
    ],
    "/v1/agents": [
        {
            "model": "tiny",
            "instructions": "Be brief.",
            "tools": TOOLS,
            "metadata": {"a": "b"},
        }
    ],
    "/v1/agents/fuzzed/generate": [
        {"messages": TURNS[1:2], "max_tokens": 3, **SAMPLING, "context_overflow": "drop_oldest"},
        {"messages": TURNS[1:], "max_tokens": 3, "tools": TOOLS},
    ],
    "/v1/embeddings": [
        {"model": "tiny", "input": ["a", "b"], "encoding_format": "base64", "dimensions": 4},
    ],
    "/api/chat": [
        {
            "model": "tiny",
            "messages": TURNS[1:2],
            "tools": TOOLS[:1],
            "options": {"num_predict": 3, "temperature": 0.5, "stop": ["x"]},
            "format": SCHEMA,
            "think": False,
            "keep_alive": "5m",
        },
    ],
    "/api/generate": [
        {
            "model": "tiny",
            "prompt": "Hi",
            "system": "Be brief.",
            "options": {"num_predict": 3},
            "stream": False,
        },
    ],
    "/api/embed": [{"model": "tiny", "input": ["a"], "truncate": True}],
    "/api/show": [{"model": "tiny", "verbose": True}],
    "/cache/explain": [
        {"protocol": "chat", "body": {"model": "tiny", "messages": TURNS[:2]}},
        {"protocol": "messages", "body": {"model": "tiny", "max_tokens": 3, "messages": TURNS[1:2]}},
    ],
    "/v1/adapters": [{"id": "a", "path": "nowhere", "model": "tiny"}],
    "/models/load": [{"model": "tiny"}],
}

LIMITS = {"requests_per_minute": 60, "tokens_per_minute": 1000, "concurrent": 2, "burst": 3}
KEY = {"name": "ann", "models": ["qwen*"], "priority": 3, "cache_group": "team", "expires": 4e9}
ADMIN_BODIES: dict[str, list[dict[str, Any]]] = {
    "POST /admin/keys": [{**KEY, "scopes": ["generate", "embed"], "limits": {"models": {"q*": LIMITS}}}],
    "PATCH /admin/keys/{key_id}": [{**KEY, "scopes": ["generate"]}],
    "PUT /admin/limits": [LIMITS],
    "PUT /admin/limits/{key_id}": [{"all_models": LIMITS, "models": {"qwen*": LIMITS, "*": {}}}],
    "PUT /admin/guardrails": [
        {"blocklist": ["project falcon"], "regex": ["a{2,3}"], "apply_to": ["input"], "action": "flag"}
    ],
    "POST /admin/guardrails/test": [
        {"text": "hello"},
        {"request": {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}, "protocol": "chat"},
    ],
    "PATCH /admin/scheduler": [{"enable_preemption": True, "max_timeslice_tokens": 10}],
    "POST /admin/keys/{key_id}/rotate": [{}],
    "DELETE /admin/keys/{key_id}": [{}],
}

_SPOKEN = {"input": "Hello world. The dog said hello.", "response_format": "pcm", "speed": 1.0, "seed": 7}
SPEECH_BODIES: list[dict[str, Any]] = [
    {"model": "pocket_tts", "voice": "ada", **_SPOKEN},
    {"model": "soprano", "voice": {"id": "default"}, "instructions": "None", **_SPOKEN},
    {"model": "pocket_tts", "voice": "alloy", "stream_format": "sse", **_SPOKEN},
    {"model": "pocket_tts", "ref_audio": "UklGRg==", "ref_text": "Hello.", "language": None, **_SPOKEN},
]
