"""Formats of tool calls, one per file; those of thinking are one table.

Imported by the registry only; `null` also by the machine.
"""
