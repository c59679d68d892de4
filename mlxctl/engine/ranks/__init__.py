"""A group of ranks seen from rank 0, and what all share.

MLX thread only. Rank 0 decides and samples. It announces each operation on caches to the other ranks
(`decoding.shared_caches`) before it carries it out itself; `mlxctl.engine.follower` repeats it there. Only
forward passes use the ring of `mx.distributed`; operations and replies go over a TCP connection to each rank,
which shows at once when a rank ends.
"""
