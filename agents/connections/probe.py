"""First call to an engine that is being added: says in a sentence what is wrong and what to do."""

import json
import socket
import ssl
from contextlib import closing
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from agents.core.engine_versions import engine_name, is_too_old
from agents.runtime.addresses import UNIX
from agents.runtime.endpoints import Endpoint
from common.errors import InvalidInput, Unavailable

TIMEOUT_S = 5
ANSWER_BYTES = 2**16
EXPIRED, SELF_SIGNED, SELF_SIGNED_IN_CHAIN = 10, 18, 19  # X509_V_ERR_* of OpenSSL
NO_ISSUER, NO_FIRST, WRONG_HOST, WRONG_IP, WRONG_PURPOSE = 20, 21, 62, 64, 26


_FOREIGN = gettext_noop("The certificate of the engine at {address} was not signed by this authority. Paste the ca.pem that signed it; if nobody changed it, somebody else answers there.")  # fmt: skip
_HOST = gettext_noop("The certificate of the engine at {address} is for other names than {host}. Issue one that names {host}, or write the address that it names.")  # fmt: skip
_CERTIFICATE = {
    EXPIRED: gettext_noop("The certificate of the engine at {address} has expired. Issue a new one for the machine and restart its engine."),
    SELF_SIGNED: gettext_noop("The certificate of the engine at {address} is signed by itself. Paste exactly this certificate as the authority, or let Berth issue one."),
    SELF_SIGNED_IN_CHAIN: _FOREIGN, NO_ISSUER: _FOREIGN, NO_FIRST: _FOREIGN, WRONG_HOST: _HOST, WRONG_IP: _HOST,
    WRONG_PURPOSE: gettext_noop("The certificate of the engine at {address} is not one of a server. Were the certificates of client and server swapped?"),
}  # fmt: skip
_OTHER_CERTIFICATE = gettext_noop("The certificate of the engine at {address} is refused: {error}.")


def check_engine(endpoint: Endpoint) -> None:
    """Check that a Docker engine, new enough, answers there and lets Berth in.
    Raises Unavailable, or InvalidInput at `address`, `certificate` or `ca`.
    """
    with closing(_open(endpoint)) as connection:
        answer = _version_of(endpoint, connection)
    if name := engine_name(answer):
        sentence = _("{address} answers, but it is {engine}, not a Docker engine. Berth needs Docker 20.10 or newer there.")  # fmt: skip
        raise _wrong(sentence, endpoint, engine=name if name != "?" else _("something else"))
    if is_too_old(str(answer["Version"])):
        sentence = _("The engine at {address} is Docker {version}, which is too old. Update it to 20.10 or newer.")  # fmt: skip
        raise _wrong(sentence, endpoint, version=str(answer["Version"])[:40])


def _open(endpoint: Endpoint) -> socket.socket:
    try:
        plain = _connect(endpoint)
    except TimeoutError as error:
        sentence = _("Nothing answers at {address} within {seconds} s. Check the address, and that no firewall is in between.")  # fmt: skip
        raise Unavailable(sentence.format(address=endpoint.address, seconds=TIMEOUT_S)) from error
    except OSError as error:
        sentence = _("{address} cannot be reached: {error}. Check the address, and that the engine listens there.")  # fmt: skip
        raise Unavailable(
            sentence.format(address=endpoint.address, error=error.strerror or str(error))
        ) from error
    if endpoint.tls is None:
        return plain
    try:
        return _tls_context(endpoint).wrap_socket(
            plain, server_hostname=urlsplit(endpoint.url).hostname or ""
        )
    except (OSError, ValueError) as error:
        plain.close()
        raise _tls_refusal(endpoint, error) from error


def _connect(endpoint: Endpoint) -> socket.socket:
    if endpoint.is_socket:
        plain = socket.socket(socket.AF_UNIX)
        plain.settimeout(3 * TIMEOUT_S)  # SSH may have to sign in first
        plain.connect(endpoint.url.removeprefix(UNIX))
        return plain
    place = urlsplit(endpoint.url)
    return socket.create_connection((place.hostname or "", place.port or 0), timeout=TIMEOUT_S)


def _tls_context(endpoint: Endpoint) -> ssl.SSLContext:
    assert endpoint.tls is not None
    context = ssl.create_default_context(cafile=endpoint.tls.ca_file)
    context.load_cert_chain(endpoint.tls.cert_file, endpoint.tls.key_file)
    return context


def _version_of(endpoint: Endpoint, connection: socket.socket) -> dict[str, Any]:
    try:
        connection.sendall(b"GET /version HTTP/1.0\r\nHost: engine\r\n\r\n")
        response = HTTPResponse(connection)
        response.begin()
        text = response.read(ANSWER_BYTES)
    except (OSError, HTTPException, ValueError) as error:
        if endpoint.tls is not None and isinstance(error, OSError) and not isinstance(error, TimeoutError):
            # In TLS 1.3 a server refuses the client's certificate after the handshake, and its reason may
            # be lost with the connection.
            raise _client_refusal(endpoint, error) from error
        if why := endpoint.explain(""):
            raise Unavailable(why) from error
        raise _no_engine(endpoint) from error
    if response.status == 400 and b"HTTPS" in text:
        sentence = _("The engine at {address} speaks TLS. Add it with certificates.")
        raise _wrong(sentence, endpoint)
    try:
        answer = json.loads(text)
    except ValueError as error:
        raise _no_engine(endpoint) from error
    if response.status != 200 or not isinstance(answer, dict):
        raise _no_engine(endpoint)
    return answer


def _no_engine(endpoint: Endpoint) -> InvalidInput:
    sentence = _("Something answers at {address}, but not as a Docker engine does. Check the port: an engine with certificates usually has 2376.")  # fmt: skip
    return _wrong(sentence, endpoint)


def _tls_refusal(endpoint: Endpoint, error: Exception) -> InvalidInput | Unavailable:
    """Return the sentence for a failed handshake."""
    if isinstance(error, ssl.SSLCertVerificationError):
        sentence = _CERTIFICATE.get(error.verify_code, _OTHER_CERTIFICATE)
        return InvalidInput.at(
            "ca",
            _(sentence).format(
                address=endpoint.address,
                host=urlsplit(endpoint.url).hostname,
                error=error.verify_message,
            ),
        )
    text = str(error)
    if "WRONG_VERSION_NUMBER" in text or "record layer failure" in text:
        sentence = _("The port at {address} does not speak TLS: whoever reaches it owns the machine. Protect the engine with certificates, as “Let Berth issue them” does.")  # fmt: skip
        return _wrong(sentence, endpoint)
    if "ALERT" in text.upper():
        return _client_refusal(endpoint, error)
    sentence = _("{address} broke off the TLS handshake: {error}. Check that an engine with certificates listens on this port.")  # fmt: skip
    return Unavailable(sentence.format(address=endpoint.address, error=text))


def _client_refusal(endpoint: Endpoint, error: Exception) -> InvalidInput:
    sentence = _("The engine at {address} does not accept Berth’s certificate ({error}). Paste one that the authority in the engine’s --tlscacert has signed, and that has not expired.")  # fmt: skip
    reason = getattr(error, "reason", None) or str(error)
    return InvalidInput.at("certificate", sentence.format(address=endpoint.address, error=reason))


def _wrong(sentence: str, endpoint: Endpoint, **words: str) -> InvalidInput:
    return InvalidInput.at("address", sentence.format(address=endpoint.address, **words))
