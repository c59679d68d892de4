"""Values that all parts of the program share."""
