"""HTTP itself: listener, routes as values, bodies, streams, sockets, errors.

Runs on the front's event loop.
"""
