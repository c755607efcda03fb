"""Addresses that a session tries to reach."""

import errno
import os
import socket
import struct
import time

from inside.rows import ABSENT, FACTS, HELD, ROWS, THROUGH, row


def answer_of(host, port, family=socket.AF_INET):
    """What a service there says. The neighbour's is away for a moment after each answer."""
    for _ in range(20):
        try:
            return answer_now(host, port, family)
        except ConnectionRefusedError:
            time.sleep(0.1)
    return answer_now(host, port, family)


def answer_now(host, port, family):
    with socket.socket(family) as client:
        client.settimeout(5)
        client.connect((host, port) if family == socket.AF_INET else host)
        said = client.recv(100).decode()
        return (THROUGH, said.strip()) if said else (HELD, "nothing said")


def gateway():
    with open("/proc/net/route") as routes:
        lines = [line.split() for line in routes]
    return next(
        socket.inet_ntoa(struct.pack("<I", int(line[2], 16))) for line in lines if line[1] == "00000000"
    )


@row("gateway")
def machine_by_gateway():
    return answer_of(gateway(), FACTS["service_port"])


@row("main-address")
def machine_by_its_address():
    return answer_of(FACTS["main_address"], FACTS["service_port"])


@row("link-local")
def machine_by_link_local_address():
    return answer_of(FACTS["link_local"], FACTS["service_port"])


@row("datagram")
def datagram_to_the_machine():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(5)
        client.connect((gateway(), FACTS["datagram_port"]))
        client.send(b"hello")
        return THROUGH, client.recv(100).decode()


@row("loopback")
def loopback_of_the_machine():
    return answer_of("127.0.0.1", FACTS["loopback_port"])


@row("abstract-socket")
def abstract_socket_of_the_machine():
    return answer_of("\0" + FACTS["abstract"], 0, socket.AF_UNIX)


@row("other-session")
def other_session():
    return answer_of(FACTS["neighbour"], FACTS["neighbour_port"])


@row("other-session-by-name")
def other_session_by_name():
    os.environ["RES_OPTIONS"] = "timeout:1 attempts:1"
    return answer_of(socket.gethostbyname(FACTS["neighbour_name"]), FACTS["neighbour_port"])


def leaves(host, port):
    """Whether a packet to somewhere outside is let go: it is if nobody near says that it is prohibited."""
    with socket.socket() as client:
        client.settimeout(1)
        try:
            client.connect((host, port))
        except TimeoutError:
            return THROUGH, "sent, no answer"
        except ConnectionRefusedError:
            return THROUGH, "sent, refused there"
        except OSError as error:
            return (HELD if error.errno == errno.EHOSTUNREACH else ABSENT), os.strerror(error.errno)
    return THROUGH, "connected"


for name, (host, port) in {
    "metadata": ("169.254.169.254", 80),
    "metadata-azure": ("168.63.129.16", 80),
    "metadata-alibaba": ("100.100.100.200", 80),
    "engine-of-others": ("192.0.2.77", 2375),
    "engine-of-others-tls": ("192.0.2.77", 2376),
}.items():
    ROWS[name] = lambda host=host, port=port: leaves(host, port)


@row("ipv6")
def ipv6():
    with open("/proc/net/if_inet6") as file:
        addresses = [line.split() for line in file]
    found = [address[0] for address in addresses if address[5] != "lo"]
    return (THROUGH, found[0]) if found else (HELD, "no address")
