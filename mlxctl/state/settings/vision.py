"""Settings of images and videos in requests."""

from dataclasses import dataclass

from mlxctl.state.settings.bounds import bounded


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionSettings:
    """Images and videos in requests."""

    max_image_pixels: int | None = bounded(None, least=1024)
    """Number of pixels to which larger images are scaled down, before the model's own rules apply.

    Default: the model's own rules only.
    """

    max_video_frames: int = bounded(64, least=1, most=1024)
    """Maximum number of frames that are read of a video. Each is also scaled down to `max_image_pixels`."""

    fetch_urls: bool = False
    """Fetch images and videos that requests name by URL, from public addresses over https.

    Default: they are refused.
    """

    fetch_hosts: tuple[str, ...] = ()
    """Host to fetch images from: `example.com`, `*.example.com` for those below it, or with a port.

    Default: any host, on the port of https.
    """

    fetch_networks: tuple[str, ...] = ()
    """Private network to fetch images from too, such as `10.0.0.0/8`.

    Every caller can then make the server send requests to it, so name hosts with `fetch_hosts`.
    """

    fetch_http: bool = False
    """Fetch images over unencrypted HTTP too."""

    fetch_max_bytes: int = bounded(10 * 1024**2, least=1024)
    """Maximum size of a fetched image or video. All of a request are bounded by `server.max_body_bytes`."""

    fetch_timeout_seconds: float = bounded(10.0, least=0.1)
    """Maximum time for fetching one image, with its redirects."""
