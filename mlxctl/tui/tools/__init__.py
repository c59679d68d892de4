"""The built-in demo tools: a clock and a calculator.

They read no file, open no connection, and run in no shell.
"""

from mlxctl.tui.tools.toolbox import DEMO_TOOLS, is_demo_tool, run_call

__all__ = ["DEMO_TOOLS", "is_demo_tool", "run_call"]
