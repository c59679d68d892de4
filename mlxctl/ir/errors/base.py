"""Base of all errors, and errors of settings, stores and commands."""

# Messages with a list of names stay below it.
_MAX_CHARS = 4000


def describe_bytes(num_bytes: int) -> str:
    """Return a size with a unit."""
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if num_bytes >= unit / 10:
            return f"{num_bytes / unit:.2f} {name}"
    return f"{num_bytes / 1e3:.2f} kB"


def shortened(text: str) -> str:
    """Return a text, without its middle if it is long."""
    return text if len(text) <= _MAX_CHARS else f"{text[: _MAX_CHARS // 2]} ... {text[-_MAX_CHARS // 4 :]}"


class MlxctlError(Exception):
    """Base of all errors that mlxctl raises on purpose.

    `str(error)` is one line for users.
    """


class SettingsError(MlxctlError):
    """A flag, environment variable or settings file has an invalid value."""


class UsageError(SettingsError):
    """A command is called wrongly, which ends it with exit code 2.

    An option, argument, environment variable or setting has an unknown name or a value that is not allowed,
    or two of them exclude each other.
    """


class StoreError(MlxctlError):
    """A database of mlxctl cannot be opened, read or written."""


class StoreUnavailable(StoreError):
    """A store cannot be used now; `store` is its name.

    Its file is locked, not permitted, damaged, or the disk is full.
    """

    def __init__(self, store: str, message: str) -> None:
        super().__init__(message)
        self.store = store


class ServiceFailed(MlxctlError):
    """The background service cannot be installed, started or stopped."""


class ClientNotReady(MlxctlError):
    """A coding agent cannot be launched.

    It is not installed, or no model suffices for it.
    """


class NoPlayer(MlxctlError):
    """No program of this machine plays audio."""


class NoVoice(MlxctlError):
    """The installed text-to-speech voice produces no audio."""
