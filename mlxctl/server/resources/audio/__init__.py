"""Speech to text, and text to speech."""
