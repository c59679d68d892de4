"""Logs, metrics, traces, statistics and health of the server.

Runs on the front's event loop; `log` and `audit` threads write.
"""
