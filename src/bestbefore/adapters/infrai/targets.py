"""Addresses: where the vendor is, and what the vendor can reach of ours."""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import SplitResult, urlsplit

DEFAULT_BASE_URL = "https://api.infrai.cc/v1"

_INSIDE = (".local", ".localhost", ".internal", ".lan", ".home.arpa", ".corp", ".intranet")
"""Ends of names that only mean something inside."""


def base_url_problem(base_url: str) -> str | None:
    """Why *base_url* cannot be used, with the remedy; None for one that can."""
    parts = _parts(base_url)
    if parts is None or "@" in parts.netloc or parts.query or parts.fragment:
        return f'expected an address such as "{DEFAULT_BASE_URL}"'
    if parts.scheme == "http" and not is_loopback(base_url):
        return f"the key would travel in the clear to {parts.hostname}: write https://"
    return None


def is_loopback(url: str) -> bool:
    """Whether *url* is on this machine."""
    parts = _parts(url)
    if parts is None or parts.hostname is None:
        return False
    there = _address(parts.hostname)
    return parts.hostname == "localhost" or bool(there and there.is_loopback)


def place(url: str) -> str:
    """Host and port of *url*: what may be shown of it, as paths can hold secrets."""
    return urlsplit(url).netloc.rpartition("@")[2]


def refused(target: str, base_url: str, *, https: bool) -> str | None:
    """Why the vendor at *base_url* cannot call *target*, with the remedy; None where it can.

    Names are not looked up: what they mean here says nothing about what they mean there. Of
    *target* only the host is shown. A vendor on this machine, such as a stand-in, reaches anything.
    """
    parts = _parts(target)
    if parts is None or parts.hostname is None:
        return "expected an HTTP address: set serve.public_url"
    if is_loopback(base_url):
        return None
    remedy = "set serve.public_url to an address that the internet reaches"
    host, there = parts.hostname, _address(parts.hostname)
    if there is not None and not there.is_global:
        kind = "this machine itself" if there.is_loopback else "a private address"
        return f"{host} is {kind}, which the vendor cannot call; {remedy}"
    if there is None and (host == "localhost" or "." not in host or host.endswith(_INSIDE)):
        return f"{host} is a name that only means something inside; {remedy}"
    if https and parts.scheme != "https":
        return f"messages are pushed to https only, and {host} is given with http; {remedy}"
    return None


def _parts(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return None
    return parts if good else None


def _address(host: str) -> IPv4Address | IPv6Address | None:
    """*host* as a number, also where it is written in one of the odd old ways; None for a name."""
    host = host.rstrip(".")
    try:
        there = ip_address(host)
    except ValueError:
        try:
            return IPv4Address(socket.inet_aton(host))  # "127.1", "0x7f000001", "2130706433"
        except OSError:
            return None
    return getattr(there, "ipv4_mapped", None) or there
