"""The pieces of the screen, one a file.

A widget renders what it is given and tells what was pressed; it decides nothing.
"""
