"""`mlxctl audit prune`."""

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import AsJson, ConfigFile, print_json
from mlxctl.terminal_text import echo

app = create_app()


@app.command(epilog="Example: mlxctl audit prune")
def prune(as_json: AsJson = False, config: ConfigFile = None) -> None:
    """Delete audit records past audit.retention_days or beyond audit.max_bytes.

    A running server does the same. Whole files are deleted, the oldest first.
    """
    with report_errors():
        from mlxctl.cli.audit.records import open_files
        from mlxctl.ir.errors import SettingsError

        files = open_files(config)
        try:
            num_deleted = files.prune()
        except OSError as error:
            raise SettingsError(
                f"the audit log in {str(files.directory)!r} cannot be pruned: {error}"
            ) from None
    if as_json:
        print_json({"deleted_files": num_deleted})
    else:
        echo(f"{num_deleted} files deleted")
