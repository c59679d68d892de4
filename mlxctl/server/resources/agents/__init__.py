"""Agents whose conversation the server stores."""
