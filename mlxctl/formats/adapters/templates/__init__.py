"""Chat templates: rendering, limits, and the conversations they support.

Pure. Imported by mlxctl.formats.adapters; `agent_headers` also by inference.
"""
