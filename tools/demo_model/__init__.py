"""Trains the built-in demo model: `python -m tools.demo_model`, by seed.

`--start DIRECTORY` continues a model. The shipped model was, with changes of the samples in between: its
report lists the runs.

`lexicon` (words), `conversation` (a sample and its text), `tasks`, `tool_tasks` and `everyday` (what samples
are made of), `curriculum` (their mix), `tokenizer`, `copying` (initial weights that can copy), `rows`
(batches), `training`, `evaluation`, `directory` (the model's files), `report`. The wheel holds only the
result, `mlxctl/library/demo/model`.
"""
