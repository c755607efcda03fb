"""SMTP server on loopback, with named faults."""

import socketserver
import threading
from email import message_from_bytes, policy
from email.message import EmailMessage

# Its answer to the end of a mail, or to its recipient.
FAULTS = {"full": (b"RCPT", b"452 full"), "nobody": (b"RCPT", b"550 nobody"), "spam": (b"DATA", b"554 no")}


class MailServer:
    """Mail server. `mails` are the accepted mails.

    `fault` is one of FAULTS, or "dies" (closes instead of accepting), or "says nothing" (accepts,
    then closes without an answer).
    """

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.fault = ""
        self.greetings = 0
        outer = self

        class Talk(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                outer.greetings += 1
                outer.talk(self)

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True

        self.server = Server(("127.0.0.1", 0), Talk)
        self.port: int = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def talk(self, line: socketserver.StreamRequestHandler) -> None:
        def say(answer: bytes) -> None:
            line.wfile.write(answer + b"\r\n")

        say(b"220 here")
        while text := line.rfile.readline():
            word = text[:4].upper().strip()
            stage, answer = FAULTS.get(self.fault, (b"", b""))
            if word == b"QUIT":
                return say(b"221 bye")
            if word == stage and word != b"DATA":
                say(answer)
            elif word == b"DATA":
                say(b"354 go on")
                body = b"".join(iter(line.rfile.readline, b".\r\n"))
                if self.fault == "dies":
                    return None
                if stage != b"DATA":
                    self.mails.append(message_from_bytes(body, policy=policy.default))  # type: ignore[arg-type]
                if self.fault == "says nothing":
                    return None
                say(answer if stage == b"DATA" else b"250 taken")
            else:
                say(b"250 ok")
        return None
