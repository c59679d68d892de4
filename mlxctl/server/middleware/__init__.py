"""Glue between HTTP and decisions taken elsewhere: one concern per file.

It refuses early and adds headers, nothing else.
"""
