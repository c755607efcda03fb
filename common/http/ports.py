"""Parses the port list of the portal. Pure."""

LARGEST_PORT = 65535


def parse_ports(text: str) -> tuple[int, ...]:
    """Return the ports of "8081-8110,9000", ordered; omits invalid numbers. Raises ValueError."""
    found: dict[int, None] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        first, is_range, last = part.partition("-")
        last = last if is_range else first
        if not (first.isdigit() and last.isdigit()):
            raise ValueError(f"{part!r} is no port and no range of ports like 8081-8110.")
        found |= dict.fromkeys(range(int(first), min(int(last), LARGEST_PORT) + 1))
    return tuple(port for port in found if 0 < port <= LARGEST_PORT)
