"""Addresses that the server may fetch from: public ones only."""

import pytest

from mlxctl.inference.image_fetching.address_rules import AddressRules, read_networks

FORBIDDEN = {
    "loopback": ["127.0.0.1", "127.255.255.254", "::1"],
    "unspecified": ["0.0.0.0", "0.1.2.3", "::"],
    "private": ["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "fc00::1", "fdff::1"],
    "link-local": ["169.254.0.1", "fe80::1", "fe80::1%eth0", "fe80::1%1"],
    "site-local": ["fec0::1"],
    "shared": ["100.64.0.1", "100.127.255.255"],
    "metadata": [
        "169.254.169.254",
        "169.254.170.2",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd20:ce::254",
    ],
    "multicast and broadcast": ["224.0.0.1", "239.255.255.255", "255.255.255.255", "ff02::1", "ff0e::1"],
    "reserved": ["240.0.0.1", "192.0.2.1", "198.51.100.1", "203.0.113.1", "198.18.0.1",
                 "2001:db8::1", "100::1"],
    "IPv4-mapped": ["::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:a9fe:a9fe"],
    "IPv4-compatible": ["::127.0.0.1", "::8.8.8.8"],
    "NAT64": ["64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1"],
    "6to4 and Teredo": ["2002:7f00:1::", "2002:808:808::1", "2001:0:7f00:1::", "192.88.99.1"],
    "SRv6 and others outside of 2000::/3": ["5f00::1", "4000::1", "e000::1"],
    "no addresses": ["", "localhost", "127.1", "0x7f.0.0.1", "2130706433", "0177.0.0.1", "1.1.1.1 ", "[::1]"],
}  # fmt: skip


@pytest.mark.parametrize("kind", FORBIDDEN)
def test_addresses_that_are_not_public_are_forbidden(kind: str) -> None:
    assert not [address for address in FORBIDDEN[kind] if AddressRules().allows(address)]


@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "1.1.1.1", "172.15.255.255", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00::1"],
)
def test_public_addresses_are_allowed(address: str) -> None:
    assert AddressRules().allows(address)


def test_named_network_is_allowed_and_no_other() -> None:
    rules = AddressRules(read_networks(["10.1.0.0/16", "fd00:1::/32"]))
    assert all(map(rules.allows, ["10.1.2.3", "fd00:1::5", "8.8.8.8"]))
    assert not any(
        map(rules.allows, ["10.2.0.1", "127.0.0.1", "::ffff:10.1.2.3", "fd00:2::1", "fd00:1::5%eth0"])
    )


def test_network_with_host_bits_is_refused() -> None:
    with pytest.raises(ValueError, match="has host bits set"):
        read_networks(["10.0.0.1/8"])
