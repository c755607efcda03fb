"""Script that an administrator runs as root on a machine; it gives the engine its certificates."""

from pathlib import Path
from urllib.parse import urlsplit

TEMPLATE = Path(__file__).with_name("join.sh")


def render_script(name: str, address: str, authorities: str, certificate: str, key: str) -> str:
    """Return the script for this machine. It contains the machine's private key. All values have
    characters of PEM, names and ports only, so none can end the quotes around it.
    """
    values = {
        "@NAME@": name,
        "@PORT@": str(urlsplit(address).port),
        "@CA@": authorities.strip(),
        "@CERT@": certificate.strip(),
        "@KEY@": key.strip(),
    }
    script = TEMPLATE.read_text()
    for mark, value in values.items():
        assert "'" not in value
        script = script.replace(mark, value)
    return script
