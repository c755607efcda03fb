"""Checks of the address of an engine before it is called."""

import ipaddress
import re
import socket
from urllib.parse import SplitResult, urlsplit

from django.conf import settings
from django.utils.translation import gettext as _

from agents.runtime.addresses import SIMULATED, SSH, TCP, UNIX
from common.errors import InvalidInput
from common.values.text import quoted

ADDRESS = re.compile(
    r"(unix:///\S+|tcp://[\w.:\[\]-]+:\d{1,5}|ssh://[\w.-]+@[\w.:\[\]-]+?(:\d{1,5})?|simulated://\S+)\Z"
)
SSH_PORT = 22


def check_address(address: str, *, is_confirmed: bool = False) -> None:
    """Check that an address can be that of an engine of another machine, or is a local socket.
    `is_confirmed`: an address of this machine is meant. Raises InvalidInput at `address`.
    """
    check_form(address)
    if address.startswith(UNIX) and settings.BERTH_ROLE != "all":
        sentence = _("{address} is another engine on each machine that Berth runs on. Write an address on the network, tcp://… or ssh://….")  # fmt: skip
        raise InvalidInput.at("address", sentence.format(address=address))
    if address.startswith((UNIX, SIMULATED)):
        return
    place = urlsplit(address)
    try:
        port = place.port or SSH_PORT
    except ValueError as error:
        raise InvalidInput.at("address", _("Ports are from 1 to 65535.")) from error
    for found in _numbers_of(place, port):
        _check_number(place, port, found, is_confirmed=is_confirmed)


def check_form(address: str) -> None:
    """Check that an address has the form of one. Raises InvalidInput."""
    if not ADDRESS.match(address):
        raise InvalidInput(
            _("{address} is not the address of an engine.").format(address=quoted(address, 80)),
            hint=_(
                "Write tcp://host:2376, ssh://user@host, or unix:///var/run/docker.sock for this machine."
            ),
            fields={"address": [_("Not the address of an engine.")]},
        )


def host_of(address: str) -> str:
    """Return the host in an address on the network."""
    return urlsplit(address).hostname or ""


def is_network(address: str) -> bool:
    return address.startswith((TCP, SSH))


def _numbers_of(place: SplitResult, port: int) -> set[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    host = place.hostname or ""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        sentence = _("No machine is called {host}. Check the name, or write its number, like 10.0.0.7.")
        raise InvalidInput.at("address", sentence.format(host=quoted(host, 80))) from error
    return {ipaddress.ip_address(str(each[4][0]).partition("%")[0]) for each in found}


def _check_number(
    place: SplitResult,
    port: int,
    number: ipaddress.IPv4Address | ipaddress.IPv6Address,
    *,
    is_confirmed: bool,
) -> None:
    host = place.hostname or ""
    if number.is_link_local or number.is_multicast or number.is_unspecified or number.is_reserved:
        sentence = _("{host} is an address that names no machine (link-local, multicast or reserved). Write the one by which the portal reaches the machine.")  # fmt: skip
        raise InvalidInput.at("address", sentence.format(host=host))
    portal = urlsplit(settings.BERTH_URL)
    portal_port = portal.port or (443 if portal.scheme == "https" else 80)
    if port == portal_port and (host == portal.hostname or (number.is_loopback and place.scheme == "tcp")):
        sentence = _("{host}:{port} is Berth itself. Write the address of a machine’s Docker engine.")
        raise InvalidInput.at("address", sentence.format(host=host, port=port))
    if number.is_loopback and not is_confirmed:
        sentence = _("{host} is whichever machine a process of Berth runs on. Write unix:///var/run/docker.sock for this machine’s engine, or the address of another machine.")  # fmt: skip
        raise InvalidInput.at("address", sentence.format(host=host))
