"""What routes answer, one folder for each kind of work.

Runs on the front's event loop. Imported by `server.routes`.
"""
