"""Records a chat with the demo model for the README: a picture and an animation."""
