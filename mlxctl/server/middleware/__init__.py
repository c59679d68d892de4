"""Middleware: early refusals and response headers, one concern per file."""
