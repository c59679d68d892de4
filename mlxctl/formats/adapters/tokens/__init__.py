"""Text to token ids and back, stop tokens, log-probabilities.

Pure. Imported by mlxctl.formats.adapters; `encoded_segments` also by inference.
"""
