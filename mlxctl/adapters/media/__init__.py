"""Image and audio files of requests, decoded and sized. For worker processes and threads."""
