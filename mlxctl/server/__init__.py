"""HTTP server: routes, middleware, streaming, start and end of the process.

Runs on the front's event loop. Knows protocols by their parsers and encoders, models by name.
"""

from mlxctl.server.app import create_app
from mlxctl.server.http.address import Address
from mlxctl.server.process import Announcer, run

__all__ = ["Address", "Announcer", "create_app", "run"]
