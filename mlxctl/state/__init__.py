"""What mlxctl keeps on this machine: settings, stores, locations.

Also certificates, the format of log lines, and which packages are installed. Runs in every process; stores on
worker threads of the front and in commands. Imports `ir` only.
"""
