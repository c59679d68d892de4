"""Looking into the prefix cache of a running server: what is kept, how it hangs together, and why a prompt was not known.

Speaks HTTP, and knows neither the engine nor a model.
"""
