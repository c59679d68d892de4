"""Agents: conversations whose history the server keeps, so that only new messages are sent.

Turns speak chat completions.
"""
