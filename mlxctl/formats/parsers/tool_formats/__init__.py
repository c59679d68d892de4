"""Formats of tool calls, one per file, and a table of thinking.

Imported by the registry only; `null` also by the machine.
"""
