"""Client address and scheme of a request through trusted proxies. Pure but for a cache."""

import ipaddress
from collections.abc import Iterable
from functools import lru_cache

from transport.server.head_parser import Fields

Client = tuple[str, int]
_SCHEMES = {b"http": "http", b"https": "https", b"ws": "http", b"wss": "https"}


class TrustedProxies:
    """Proxies, by address or network, whose X-Forwarded-* headers are trusted; "*" is any."""

    def __init__(self, places: Iterable[str]) -> None:
        names = [place.strip() for place in places if place.strip()]
        self._is_everybody = "*" in names
        self._networks = [ipaddress.ip_network(name, strict=False) for name in names if name != "*"]
        self.trusts = lru_cache(maxsize=1024)(self._trusts)

    def origin(self, client: Client, fields: Fields) -> tuple[str, Client]:
        """Return scheme and client of a request on this connection. The client is the last address
        that is not a trusted proxy; addresses before it can be forged by that client.
        """
        if not self.trusts(client[0]):
            return "http", client
        schemes = [value.strip().lower() for name, value in fields if name == b"x-forwarded-proto"]
        named = [value for name, value in fields if name == b"x-forwarded-for"]
        addresses = [part.strip().decode("latin-1") for part in b",".join(named).split(b",") if part.strip()]
        strangers = [address for address in addresses if not self.trusts(address)]
        first = strangers[-1:] or addresses[:1]
        return _SCHEMES.get(schemes[-1] if schemes else b"", "http"), (first[0], 0) if first else client

    def _trusts(self, address: str) -> bool:
        if self._is_everybody:
            return True
        try:
            known = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(known in network for network in self._networks)
