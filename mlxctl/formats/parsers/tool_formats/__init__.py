"""Formats of tool calls and thinking, one per file.

Imported by the registry only; `null` also by the machine.
"""
