"""Which routes administer the server, or show what other callers asked: where there are admin keys, they need one."""

ADMIN_ROUTES = frozenset(
    {
        "/cache",
        "/cache/clear",
        "/cache/drop",
        "/cache/explain",
        "/cache/gc",
        "/cache/pin",
        "/cache/unpin",
        "/downloads",
        "/models/load",
        "/models/pin",
        "/models/unload",
        "/models/unpin",
        "/requests",
    }
)
