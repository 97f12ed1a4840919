"""Serves until its standard input ends; prints its address first."""

import sys
import threading
from http.server import ThreadingHTTPServer

from .handler import Handler

server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
sys.stdin.read()
server.shutdown()
