"""The bench room, measured itself: on servers of known speed and on our own."""
