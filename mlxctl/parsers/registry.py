"""All formats by their stored ids. Imported on demand.

A new format is one row. Templates are tried against the tool parsers in this order.
"""

from importlib import import_module

from mlxctl.parsers.declarations import ThinkingParser, ToolParser

_TOOLS = {
    "hermes_json": "mlxctl.parsers.formats.hermes_json",
    "qwen3_coder": "mlxctl.parsers.formats.qwen3_coder",
    "mimo": "mlxctl.parsers.formats.mimo",
    "glm4_native": "mlxctl.parsers.formats.glm4_native",
    "glm4_xml": "mlxctl.parsers.formats.glm4_xml",
    "llama_xml": "mlxctl.parsers.formats.llama_xml",
    "llama_python": "mlxctl.parsers.formats.llama_python",
    "liquid_python": "mlxctl.parsers.formats.liquid_python",
    "mistral": "mlxctl.parsers.formats.mistral",
    "harmony": "mlxctl.parsers.formats.harmony",
    "beam": "mlxctl.parsers.formats.beam",
    "gemma4": "mlxctl.parsers.formats.gemma4",
    "function_gemma": "mlxctl.parsers.formats.function_gemma",
    "gemma": "mlxctl.parsers.formats.gemma",
    "kimi_k2": "mlxctl.parsers.formats.kimi_k2",
    "minimax_m2": "mlxctl.parsers.formats.minimax_m2",
    "deepseek": "mlxctl.parsers.formats.deepseek",
    "granite": "mlxctl.parsers.formats.granite",
    "phi4": "mlxctl.parsers.formats.phi4",
    "command_r": "mlxctl.parsers.formats.command_r",
    "minicpm5": "mlxctl.parsers.formats.minicpm5",
    "seed_oss": "mlxctl.parsers.formats.seed_oss",
    "kimi_k3": "mlxctl.parsers.formats.kimi_k3",
    "minimax_m3": "mlxctl.parsers.formats.minimax_m3",
    "nemotron": "mlxctl.parsers.formats.nemotron",
    "tool_calls_json": "mlxctl.parsers.formats.tool_calls_json",
    "hunyuan": "mlxctl.parsers.formats.hunyuan",
    "olmo3": "mlxctl.parsers.formats.olmo3",
    "muse": "mlxctl.parsers.formats.muse",
    "longcat": "mlxctl.parsers.formats.longcat",
    "apertus": "mlxctl.parsers.formats.apertus",
    "solar_open": "mlxctl.parsers.formats.solar_open",
    "gigachat3": "mlxctl.parsers.formats.gigachat3",
    "granite_20b": "mlxctl.parsers.formats.granite_20b",
    "internlm2": "mlxctl.parsers.formats.internlm2",
    "functionary": "mlxctl.parsers.formats.functionary",
    "functools": "mlxctl.parsers.formats.functools",
    "plamo3": "mlxctl.parsers.formats.plamo3",
    "dots": "mlxctl.parsers.formats.dots",
    "step3": "mlxctl.parsers.formats.step3",
    "k2_horizon": "mlxctl.parsers.formats.k2_horizon",
    "inkling": "mlxctl.parsers.formats.inkling",
    "xlam": "mlxctl.parsers.formats.xlam",
    "null": "mlxctl.parsers.formats.null",
}

_THINKING = {
    "hunyuan_answer": "mlxctl.parsers.formats.hunyuan_answer",
    "think_tag": "mlxctl.parsers.formats.think_tag",
    "harmony_analysis": "mlxctl.parsers.formats.harmony_analysis",
    "mistral_think": "mlxctl.parsers.formats.mistral_think",
    "seed_think": "mlxctl.parsers.formats.seed_think",
    "cohere_think": "mlxctl.parsers.formats.cohere_think",
    "gemma4_channel": "mlxctl.parsers.formats.gemma4_channel",
    "kimi_k3_think": "mlxctl.parsers.formats.kimi_k3_think",
    "mm_think": "mlxctl.parsers.formats.mm_think",
    "hy_think": "mlxctl.parsers.formats.hy_think",
    "longcat_think": "mlxctl.parsers.formats.longcat_think",
    "muse_self": "mlxctl.parsers.formats.muse_self",
    "solar_think": "mlxctl.parsers.formats.solar_think",
    "apertus_inner": "mlxctl.parsers.formats.apertus_inner",
    "granite_prose": "mlxctl.parsers.formats.granite_prose",
    "apriel_steps": "mlxctl.parsers.formats.apriel_steps",
    "functionary_all": "mlxctl.parsers.formats.functionary_all",
    "plamo_think": "mlxctl.parsers.formats.plamo_think",
    "ifm_think": "mlxctl.parsers.formats.ifm_think",
    "inkling_think": "mlxctl.parsers.formats.inkling_think",
    "kimi_vl_think": "mlxctl.parsers.formats.kimi_vl_think",
    "null": "mlxctl.parsers.formats.null",
}

TOOL_PARSER_IDS = tuple(_TOOLS)
THINKING_PARSER_IDS = tuple(_THINKING)


def tool_parser(parser_id: str) -> ToolParser:
    """Return a tool parser; raises KeyError for an unknown id."""
    parser: ToolParser = import_module(_TOOLS[parser_id]).TOOLS
    return parser


def thinking_parser(parser_id: str) -> ThinkingParser:
    """Return a thinking parser; raises KeyError for an unknown id."""
    parser: ThinkingParser = import_module(_THINKING[parser_id]).THINKING
    return parser
