"""Resources of other servers' APIs."""
