"""LDAP server on loopback: `python -m tests.doubles.directory_server` prints its port.

It is ldaptor's server with entries in memory, in a separate process: real requests on a real
socket, by another library than the client under test.
"""

import subprocess
import sys
from typing import Any

BASE = "dc=uni,dc=example"
BIND_DN, SECRET = f"cn=berth,{BASE}", "a secret of the directory"
PASSWORD = "a directory's harbour"
PEOPLE = {
    "ada": ("ada@berth.example", "Ada (Lovelace)", ("staff", "vision")),
    "grace": ("grace@berth.example", "Grace", ()),
    "twin1": ("twin@berth.example", "Twin", ()),
    "twin2": ("twin@berth.example", "Twin", ()),
}


class DirectoryServer:
    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.doubles.directory_server"], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout
        self.url = f"ldap://127.0.0.1:{int(self.process.stdout.readline())}"

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()


def serve() -> None:
    from ldaptor.inmemory import ReadOnlyInMemoryLDAPEntry
    from ldaptor.interfaces import IConnectedLDAPEntry
    from ldaptor.protocols.ldap.ldapserver import LDAPServer
    from twisted.internet import reactor
    from twisted.internet.protocol import ServerFactory
    from twisted.python.components import registerAdapter

    root: Any = ReadOnlyInMemoryLDAPEntry(dn=BASE, attributes={"objectClass": ["dcObject"], "dc": ["uni"]})
    root.addChild(
        rdn="cn=berth", attributes={"objectClass": ["person"], "cn": ["berth"], "userPassword": [SECRET]}
    )
    for name, (email, title, groups) in PEOPLE.items():
        attributes: dict[str, list[str]] = {
            "objectClass": ["person"], "uid": [name], "cn": [title], "mail": [email], "userPassword": [PASSWORD],
        }  # fmt: skip
        if groups:
            attributes["memberOf"] = [f"cn={group},ou=groups,{BASE}" for group in groups]
        root.addChild(rdn=f"uid={name}", attributes=attributes)

    class Factory(ServerFactory):
        protocol = LDAPServer

    registerAdapter(lambda factory: root, Factory, IConnectedLDAPEntry)
    original = Factory.buildProtocol

    def build(self: Any, address: Any) -> Any:
        protocol = original(self, address)
        protocol.factory = self
        return protocol

    Factory.buildProtocol = build  # type: ignore[method-assign]
    port = reactor.listenTCP(0, Factory(), interface="127.0.0.1")  # type: ignore[attr-defined]
    sys.stdout.write(f"{port.getHost().port}\n")
    sys.stdout.flush()
    reactor.run()  # type: ignore[attr-defined]


if __name__ == "__main__":
    serve()
