"""Host names and addresses of this machine."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Return whether a name, or an address without brackets, is loopback."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
