"""What has been computed already, so that nothing is computed twice.

Knows token ids and opaque payloads; no text, no HTTP.
"""
