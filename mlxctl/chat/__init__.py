"""Terminal interface: chat with local or remote models, server monitor.

Runs in the process of the command. Handles requests and events; imports neither the HTTP server nor the
engine. Modules that the first frame needs are imported at the top; everything that leads to a model is
imported later.
"""
