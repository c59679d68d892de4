"""Prefill and decode on the device. MLX thread only."""
