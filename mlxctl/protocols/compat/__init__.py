"""Dialects of other servers and APIs, a folder each."""
