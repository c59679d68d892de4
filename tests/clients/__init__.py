"""Real clients against a real server: `python -m tests.clients` installs coding agents from npm and Python
libraries with pip, and has each do one turn with a tool.

Needs node and npm, and the first time some ten minutes of one core for the model that calls tools. The test
suite does without: `tests/server/test_coding_agents.py` sends what these clients send.
"""
