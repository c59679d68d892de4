"""Scheduling: which sequences run in a step, with how many tokens.

Pure; MLX thread.
"""
