"""The recipe of the demo model: `python -m mlxctl.demo.recipe` makes it again from a seed.

One noun per file: `lexicon` (words), `conversation` (what a sample is and how it is rendered), `tasks` and
`tool_tasks` (what is practised), `tokenizer`, `copying` (initial weights that can copy), `training`,
`evaluation`, `directory` (the files that ship). This is the only part of the demo that imports mlx.
"""
