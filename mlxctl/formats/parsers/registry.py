"""All formats by their stored ids.

Those of tool calls are imported on demand; a module has one, or several by id. A new format is one row.
Templates are tried against the tool parsers in this order.
"""

from collections.abc import Mapping
from importlib import import_module

from mlxctl.formats.parsers.declarations import ThinkingParser, ToolParser
from mlxctl.formats.parsers.tool_formats.thinking import THINKING_PARSERS

_TOOLS = {
    "hermes_json": "mlxctl.formats.parsers.tool_formats.json_objects",
    "qwen3_coder": "mlxctl.formats.parsers.tool_formats.qwen3_coder",
    "mimo": "mlxctl.formats.parsers.tool_formats.mimo",
    "glm4_native": "mlxctl.formats.parsers.tool_formats.glm4_native",
    "glm4_xml": "mlxctl.formats.parsers.tool_formats.glm4_xml",
    "llama_xml": "mlxctl.formats.parsers.tool_formats.llama_xml",
    "llama_python": "mlxctl.formats.parsers.tool_formats.llama_python",
    "liquid_python": "mlxctl.formats.parsers.tool_formats.liquid_python",
    "mistral": "mlxctl.formats.parsers.tool_formats.mistral",
    "harmony": "mlxctl.formats.parsers.tool_formats.harmony",
    "beam": "mlxctl.formats.parsers.tool_formats.beam",
    "gemma4": "mlxctl.formats.parsers.tool_formats.gemma4",
    "function_gemma": "mlxctl.formats.parsers.tool_formats.function_gemma",
    "gemma": "mlxctl.formats.parsers.tool_formats.gemma",
    "kimi_k2": "mlxctl.formats.parsers.tool_formats.kimi_k2",
    "minimax_m2": "mlxctl.formats.parsers.tool_formats.minimax_m2",
    "deepseek": "mlxctl.formats.parsers.tool_formats.deepseek",
    "granite": "mlxctl.formats.parsers.tool_formats.json_objects",
    "phi4": "mlxctl.formats.parsers.tool_formats.json_objects",
    "command_r": "mlxctl.formats.parsers.tool_formats.command_r",
    "minicpm5": "mlxctl.formats.parsers.tool_formats.minicpm5",
    "seed_oss": "mlxctl.formats.parsers.tool_formats.seed_oss",
    "kimi_k3": "mlxctl.formats.parsers.tool_formats.kimi_k3",
    "minimax_m3": "mlxctl.formats.parsers.tool_formats.minimax_m3",
    "nemotron": "mlxctl.formats.parsers.tool_formats.json_objects",
    "tool_calls_json": "mlxctl.formats.parsers.tool_formats.tool_calls_json",
    "hunyuan": "mlxctl.formats.parsers.tool_formats.hunyuan",
    "olmo3": "mlxctl.formats.parsers.tool_formats.olmo3",
    "muse": "mlxctl.formats.parsers.tool_formats.muse",
    "longcat": "mlxctl.formats.parsers.tool_formats.longcat",
    "apertus": "mlxctl.formats.parsers.tool_formats.apertus",
    "solar_open": "mlxctl.formats.parsers.tool_formats.solar_open",
    "gigachat3": "mlxctl.formats.parsers.tool_formats.json_objects",
    "granite_20b": "mlxctl.formats.parsers.tool_formats.json_objects",
    "internlm2": "mlxctl.formats.parsers.tool_formats.json_objects",
    "functionary": "mlxctl.formats.parsers.tool_formats.functionary",
    "functools": "mlxctl.formats.parsers.tool_formats.json_objects",
    "plamo3": "mlxctl.formats.parsers.tool_formats.plamo3",
    "dots": "mlxctl.formats.parsers.tool_formats.dots",
    "step3": "mlxctl.formats.parsers.tool_formats.step3",
    "k2_horizon": "mlxctl.formats.parsers.tool_formats.k2_horizon",
    "inkling": "mlxctl.formats.parsers.tool_formats.inkling",
    "xlam": "mlxctl.formats.parsers.tool_formats.json_objects",
    "null": "mlxctl.formats.parsers.tool_formats.null",
}

TOOL_PARSER_IDS = tuple(_TOOLS)
THINKING_PARSER_IDS = tuple(THINKING_PARSERS)


def tool_parser(parser_id: str) -> ToolParser:
    """Return a tool parser; raises KeyError for an unknown id."""
    parsers: ToolParser | Mapping[str, ToolParser] = import_module(_TOOLS[parser_id]).TOOLS
    return parsers if isinstance(parsers, ToolParser) else parsers[parser_id]


def thinking_parser(parser_id: str) -> ThinkingParser:
    """Return a thinking parser; raises KeyError for an unknown id."""
    return THINKING_PARSERS[parser_id]
