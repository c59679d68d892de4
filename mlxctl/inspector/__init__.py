"""Looking into a running server: what its prefix cache keeps, how that hangs together, why a prompt was not
known; its agents.

Speaks HTTP, and knows neither the engine nor a model.
"""
