"""Inspection of a server and of the prefix cache, for commands."""
