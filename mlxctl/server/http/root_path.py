"""Serves the routes below a path prefix."""

from mlxctl.server.http.disconnect import Application, Receive, Scope, Send


class RootPath:
    """ASGI wrapper that removes a prefix from paths.

    It notes the prefix in `root_path` for the routes.
    The prefix is the one that the outer application notes (`root_path` of ASGI), or else the configured one.
    Paths without it are served as well: a proxy may have removed it.
    """

    def __init__(self, application: Application, root_path: str) -> None:
        self.application = application
        self._root_path = normalized_root(root_path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        root = normalized_root(scope.get("root_path", "")) or self._root_path
        if root and scope["type"] != "lifespan":
            path, raw_path = scope["path"], scope.get("raw_path")
            scope = {**scope, "root_path": root}
            if path == root or path.startswith(f"{root}/"):
                scope["path"] = path[len(root) :] or "/"
            prefix = root.encode()
            if raw_path is not None and raw_path.startswith(prefix):
                scope["raw_path"] = raw_path[len(prefix) :] or b"/"
        await self.application(scope, receive, send)


def normalized_root(root_path: str) -> str:
    """Return the prefix with a slash only before it.

    Empty for none.
    """
    stripped = root_path.strip("/")
    return f"/{stripped}" if stripped else ""
