"""Logs, metrics, traces, statistics and health."""
