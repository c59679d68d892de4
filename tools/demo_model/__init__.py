"""Trains the built-in demo model: `python -m tools.demo_model`, reproducible by seed.

`lexicon` (words), `conversation` (a sample and its text), `tasks` and `tool_tasks` (what samples are made
of), `curriculum` (their mix), `tokenizer`, `copying` (initial weights that can copy), `rows` (batches),
`training`, `evaluation`, `directory` (the model's files), `report`. The wheel holds only the result,
`mlxctl/demo/model`.
"""
