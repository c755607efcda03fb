"""TLS verification of portals, against the system's authorities and those of `ca_file`."""

import os
import ssl

import certifi

from berth.errors import InvalidInput


def tls_context(ca_file: str = "") -> ssl.SSLContext:
    """Return a verifying TLS context. Raises InvalidInput.

    Uses Mozilla's authorities if the system has none.
    """
    try:
        context = ssl.create_default_context()
        if not context.cert_store_stats()["x509_ca"]:
            context.load_verify_locations(certifi.where())
        if ca_file:
            context.load_verify_locations(os.path.expanduser(ca_file))
    except (OSError, ssl.SSLError) as exc:
        raise InvalidInput(
            f"The certificates in “{ca_file}” cannot be read: {exc}.",
            hint="Name a PEM file in ca_file of the profile, or in BERTH_CA_FILE.",
        ) from exc
    return context
