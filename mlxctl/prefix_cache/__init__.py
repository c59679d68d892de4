"""Prefix cache: keys, values and layer states of prompt prefixes, in memory and on disk.

Knows token ids and opaque payloads; no text, no HTTP.
"""
