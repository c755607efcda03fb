"""Certificates of a cluster, issued by an authority of its own for thirty days."""

import secrets
from pathlib import Path

from portal.ops.cluster.layout import Cluster, ClusterMachine
from portal.ops.cluster.shell import run

DAYS = 30
CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def ensure_authority(cluster: Cluster) -> None:
    """Create the authority and the portal's certificate (`ca.pem`, `cert.pem`, `key.pem`)."""
    folder = cluster.certificates
    folder.mkdir(mode=0o700, exist_ok=True)
    if (folder / "cert.pem").exists():
        return
    subject = f"/CN=Berth test authority {secrets.token_hex(4)}"
    usage = "keyUsage=critical,keyCertSign,cRLSign"
    files = ("-keyout", folder / "ca-key.pem", "-out", folder / "ca.pem")
    run("openssl", "req", "-x509", *CURVE, "-days", DAYS, "-subj", subject, "-addext", usage, *files)
    issue_certificate(folder, folder, name="portal", usage="clientAuth")


def ensure_machine_certificate(machine: ClusterMachine) -> None:
    """Issue the certificate of a machine's engine for its address and its name."""
    if (machine.home / "cert.pem").exists():
        return
    alternatives = f"IP:{machine.address},DNS:{machine.name}"
    issue_certificate(
        machine.cluster.certificates,
        machine.home,
        name=machine.name,
        usage="serverAuth",
        alternatives=alternatives,
    )


def issue_certificate(
    authority: Path, target: Path, *, name: str, usage: str, alternatives: str = "", days: int = DAYS
) -> None:
    """Write `cert.pem` and `key.pem` to `target`, signed by the authority in `authority`.

    `alternatives` are the subject's alternative names as openssl writes them.
    """
    request, extensions = target / "request.pem", target / "extensions"
    lines = [f"extendedKeyUsage={usage}", *([f"subjectAltName={alternatives}"] if alternatives else [])]
    extensions.write_text("\n".join(lines))
    run("openssl", "req", *CURVE, "-subj", f"/CN={name}", "-keyout", target / "key.pem", "-out", request)
    signing = ("-CA", authority / "ca.pem", "-CAkey", authority / "ca-key.pem")
    serial = ("-set_serial", str(secrets.randbits(63)))
    ends = ("-days", days, "-extfile", extensions, "-out", target / "cert.pem")
    run("openssl", "x509", "-req", "-in", request, *signing, *serial, *ends)
    request.unlink()
    extensions.unlink()
