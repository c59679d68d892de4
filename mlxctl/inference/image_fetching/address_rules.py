"""Which IP addresses may be fetched from. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

Network = IPv4Network | IPv6Network

# SEC: an own table, because the flags of `ipaddress` differ between versions of Python.
_RESERVED_IPV4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # carrier-grade NAT; metadata of Alibaba Cloud
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # host services of Azure
        "169.254.0.0/16",  # link-local; metadata of most clouds
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments; metadata of Oracle Cloud
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # automatic multicast tunneling
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",  # private
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)
# Everything else is reserved, private, link-local, multicast, or has an IPv4 address within it.
_GLOBAL_IPV6 = IPv6Network("2000::/3")
_RESERVED_IPV6 = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # protocol assignments, Teredo
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4, with an IPv4 address
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
    )
)


@dataclass(frozen=True, slots=True)
class AddressRules:
    """Allows public addresses, and those of `networks`.

    IPv4-mapped addresses and those of NAT64 are never public.
    """

    networks: tuple[Network, ...] = ()

    def allows(self, address: str) -> bool:
        """Whether the server may connect to an address.

        False for what is no address.
        """
        try:
            found = ip_address(address)
        except ValueError:
            return False
        if found.version == 6 and found.scope_id is not None:
            return False
        if any(found in network for network in self.networks):
            return True
        if found.version == 4:
            return not any(found in network for network in _RESERVED_IPV4)
        return found in _GLOBAL_IPV6 and not any(found in network for network in _RESERVED_IPV6)


def read_networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Return networks in CIDR notation. Raises ValueError."""
    return tuple(ip_network(text) for text in texts)
