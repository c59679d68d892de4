"""Real clients against a real server: `python -m tests.clients`.

Installs coding agents from npm and Python libraries with pip; each does one turn with a tool. Needs node and
npm, and at first about ten minutes of one core to train the tool-calling model. The test suite has no need of
it: `tests/server/test_coding_agents.py` sends the same requests.
"""
