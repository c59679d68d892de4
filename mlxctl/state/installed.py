"""Which packages this environment has, without importing them.

Packages of the extras may be absent, so the other modules look them up here and nowhere else.
"""

from collections.abc import Mapping
from pathlib import Path

EXTRAS: Mapping[str, Mapping[str, str]] = {
    "encoders": {"mlx_vlm": "mlx-vlm"},
    "embeddings-extra": {"mlx_embeddings": "mlx-embeddings"},
    "vision": {"mlx_vlm": "mlx-vlm", "PIL": "Pillow"},
    "heic": {"pillow_heif": "pillow-heif"},
    "pdf": {"pypdfium2": "pypdfium2", "PIL": "Pillow"},
    "audio": {"mlx_audio": "mlx-audio", "miniaudio": "miniaudio", "soundfile": "soundfile"},
    "kokoro": {"misaki": "misaki"},
    "espeak": {"espeakng_loader": "espeakng-loader"},
    "policy": {"cryptography": "cryptography"},
    "oidc": {"joserfc": "joserfc"},
    "otel": {
        "opentelemetry.sdk.trace": "opentelemetry-sdk",
        "opentelemetry.exporter.otlp.proto.http": "opentelemetry-exporter-otlp-proto-http",
    },
    "mcp": {"mcp": "mcp"},
}
"""The packages that are needed of each extra, by the names of their modules."""


def version_of(package: str) -> str | None:
    """Return the version of an installed package.

    None when it is not installed.
    """
    # PERF: a server that starts must not wait for this import.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def file_of(module: str) -> Path | None:
    """Return the file of a module.

    None when it is not installed.
    """
    from importlib.util import find_spec

    try:
        found = find_spec(module)
    except ModuleNotFoundError:  # of a package above it
        return None
    return Path(found.origin) if found is not None and found.origin is not None else None


def missing_for(extra: str) -> str | None:
    """Return an extra's missing packages with the install command, or None."""
    missing = [package for module, package in EXTRAS[extra].items() if file_of(module) is None]
    return f"{' and '.join(missing)} (pip install 'mlxctl[{extra}]')" if missing else None
