"""What clients may send and what they get, in each protocol."""
