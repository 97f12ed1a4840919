"""One request: read whole, then handed to the behaviour that its path names."""

import json
import socket
from http.server import BaseHTTPRequestHandler

from . import faults


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except (ConnectionError, socket.timeout):
            self.close_connection = True

    def dispatch(self):
        _, behaviour, *rest = self.path.split("/")
        self.rest = "/" + "/".join(rest)
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.close_connection = True
        faults.BEHAVIOURS[behaviour](self)

    do_GET = do_POST = do_PUT = do_DELETE = dispatch

    def reply(self, status, document, **headers):
        self.reply_bytes(status, json.dumps(document).encode(), "application/json", **headers)

    def reply_bytes(self, status, body, content_type, length=None, **headers):
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        # Not the one it was sent: a client must take the server's.
        self.send_header("X-Request-ID", "made-by-the-stand-in")
        self.send_header("Connection", "close")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status, slug, message, **headers):
        self.reply(status, {"error": slug, "message": message}, **headers)

    def log_message(self, *arguments):
        """Tests say themselves what went wrong."""
