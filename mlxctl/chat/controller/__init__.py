"""The chat without a terminal: its state, its commands, and their effects.

A command is a generator. It changes the state and yields effects, which a front end performs; the result
of an effect is sent back, an error is raised in the command.
"""
