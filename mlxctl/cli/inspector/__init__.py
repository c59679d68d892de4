"""Inspection of the prefix cache, for commands.

Runs in the process of the command.
"""
