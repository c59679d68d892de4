"""Text generation over HTTP."""
