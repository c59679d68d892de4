"""Records a chat with the demo model as pictures."""
