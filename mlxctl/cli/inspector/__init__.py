"""Inspection of a server and of the prefix cache, for commands.

Runs in the process of the command.
"""
