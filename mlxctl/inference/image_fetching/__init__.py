"""Images that requests name by URL, fetched by the server.

SEC: callers choose these URLs, and the server may reach what they cannot (server-side request forgery).
The rules are pure: `url_rules` decides about a URL, `address_rules` about an IP address. `connections`
connects to the very addresses that were checked, `download` follows redirects within the limits, and
`fetcher` fetches the images of a request.
"""

from mlxctl.inference.image_fetching.fetcher import ImageFetcher

__all__ = ["ImageFetcher"]
