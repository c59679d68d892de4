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
    "null": "mlxctl.parsers.null",
}

_THINKING = {
    "think_tag": "mlxctl.parsers.think_tag",
    "harmony_analysis": "mlxctl.parsers.harmony_analysis",
    "mistral_think": "mlxctl.parsers.mistral_think",
    "seed_think": "mlxctl.parsers.seed_think",
    "cohere_think": "mlxctl.parsers.cohere_think",
    "gemma4_channel": "mlxctl.parsers.gemma4_channel",
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
