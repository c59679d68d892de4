"""`mlxctl admin`: API keys, limits and guardrails. One file per group."""

from mlxctl.cli.lazy import LazyCommand, lazy_group

COMMANDS = {
    "keys": LazyCommand("mlxctl.cli.admin.keys", "List, add, change, rotate and revoke API keys."),
    "limits": LazyCommand("mlxctl.cli.admin.limits", "Show and set rate limits."),
    "guardrails": LazyCommand("mlxctl.cli.admin.guardrails", "Show, set and try guardrails."),
}
app = lazy_group("admin", COMMANDS, example="mlxctl admin keys ls")
