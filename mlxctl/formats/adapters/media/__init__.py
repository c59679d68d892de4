"""Image and audio files of requests, decoded for models.

Knows no mlx. Imported by adapters, probe and server.
"""
