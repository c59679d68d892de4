"""Prefix cache: states of prompt prefixes, in memory and on disk.

Keys, values and layer states. Knows token ids and opaque payloads; no text, no HTTP.
"""
