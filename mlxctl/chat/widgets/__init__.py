"""Widgets of the chat and the monitor, one per file.

A widget shows what it is given and posts messages; the screens decide.
"""
