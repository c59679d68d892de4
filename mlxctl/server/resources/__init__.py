"""What routes answer, by kind of work."""
