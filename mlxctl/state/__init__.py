"""What mlxctl keeps on this machine: settings, stores, locations."""
