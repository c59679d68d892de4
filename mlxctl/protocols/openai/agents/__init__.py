"""Agents: conversations whose history the server stores; clients send only new messages."""
