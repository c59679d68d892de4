"""Grammars of whole answers: thinking, text, calls, structured output.

Pure. Imported by mlxctl.formats.adapters only.
"""
