"""Which parsers there are, by the id under which they are stored. Imported on demand: one row per parser.

The order of the tool parsers is the order in which a model's template is tried against them.
"""

from importlib import import_module

from mlxctl.parsers.declarations import ThinkingParser, ToolParser

_TOOLS = {
    "hermes_json": "mlxctl.parsers.hermes_json",
    "qwen3_coder": "mlxctl.parsers.qwen3_coder",
    "glm4_native": "mlxctl.parsers.glm4_native",
    "glm4_xml": "mlxctl.parsers.glm4_xml",
    "llama_xml": "mlxctl.parsers.llama_xml",
    "llama_python": "mlxctl.parsers.llama_python",
    "liquid_python": "mlxctl.parsers.liquid_python",
    "mistral": "mlxctl.parsers.mistral",
    "harmony": "mlxctl.parsers.harmony",
    "gemma4": "mlxctl.parsers.gemma4",
    "function_gemma": "mlxctl.parsers.function_gemma",
    "gemma": "mlxctl.parsers.gemma",
    "kimi_k2": "mlxctl.parsers.kimi_k2",
    "minimax_m2": "mlxctl.parsers.minimax_m2",
    "deepseek": "mlxctl.parsers.deepseek",
    "granite": "mlxctl.parsers.granite",
    "phi4": "mlxctl.parsers.phi4",
    "command_r": "mlxctl.parsers.command_r",
    "minicpm5": "mlxctl.parsers.minicpm5",
    "seed_oss": "mlxctl.parsers.seed_oss",
    "kimi_k3": "mlxctl.parsers.kimi_k3",
    "minimax_m3": "mlxctl.parsers.minimax_m3",
    "nemotron": "mlxctl.parsers.nemotron",
    "tool_calls_json": "mlxctl.parsers.tool_calls_json",
    "hunyuan": "mlxctl.parsers.hunyuan",
    "olmo3": "mlxctl.parsers.olmo3",
    "muse": "mlxctl.parsers.muse",
    "longcat": "mlxctl.parsers.longcat",
    "apertus": "mlxctl.parsers.apertus",
    "solar_open": "mlxctl.parsers.solar_open",
    "gigachat3": "mlxctl.parsers.gigachat3",
    "granite_20b": "mlxctl.parsers.granite_20b",
    "internlm2": "mlxctl.parsers.internlm2",
    "functionary": "mlxctl.parsers.functionary",
    "functools": "mlxctl.parsers.functools",
    "null": "mlxctl.parsers.null",
}

_THINKING = {
    "hunyuan_answer": "mlxctl.parsers.hunyuan_answer",
    "think_tag": "mlxctl.parsers.think_tag",
    "harmony_analysis": "mlxctl.parsers.harmony_analysis",
    "mistral_think": "mlxctl.parsers.mistral_think",
    "seed_think": "mlxctl.parsers.seed_think",
    "cohere_think": "mlxctl.parsers.cohere_think",
    "gemma4_channel": "mlxctl.parsers.gemma4_channel",
    "kimi_k3_think": "mlxctl.parsers.kimi_k3_think",
    "mm_think": "mlxctl.parsers.mm_think",
    "hy_think": "mlxctl.parsers.hy_think",
    "longcat_think": "mlxctl.parsers.longcat_think",
    "muse_self": "mlxctl.parsers.muse_self",
    "solar_think": "mlxctl.parsers.solar_think",
    "apertus_inner": "mlxctl.parsers.apertus_inner",
    "granite_prose": "mlxctl.parsers.granite_prose",
    "apriel_steps": "mlxctl.parsers.apriel_steps",
    "functionary_all": "mlxctl.parsers.functionary_all",
    "null": "mlxctl.parsers.null",
}

TOOL_PARSER_IDS = tuple(_TOOLS)
THINKING_PARSER_IDS = tuple(_THINKING)


def tool_parser(parser_id: str) -> ToolParser:
    """Return the tool parser with this id; raises KeyError if there is none."""
    parser: ToolParser = import_module(_TOOLS[parser_id]).TOOLS
    return parser


def thinking_parser(parser_id: str) -> ThinkingParser:
    """Return the thinking parser with this id; raises KeyError if there is none."""
    parser: ThinkingParser = import_module(_THINKING[parser_id]).THINKING
    return parser
