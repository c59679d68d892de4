"""Screens: the chat, its dialogs, and the monitor."""
