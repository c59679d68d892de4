"""HTTP itself: listener, bodies, streams, sockets, errors."""
