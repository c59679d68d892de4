"""Which models the server has, and in which state. Event-loop thread only."""
