"""A web server that stores received requests, in place of a notified service."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace


@contextmanager
def web(status=200, hang=None, answer=b""):
    """Run a server and yield its address without a scheme, its requests, and the paths that it answered."""
    got, answered = [], []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.path, json.loads(body), dict(self.headers)))
            if hang is not None:
                hang.wait(30)
            self.send_response(server.status)
            self.end_headers()
            self.wfile.write(answer)
            answered.append(self.path)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.status, server.block_on_close = True, status, False
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        at = f"localhost:{server.server_port}"
        yield SimpleNamespace(at=at, got=got, answered=answered, server=server)
    finally:
        if hang is not None:
            hang.set()
        server.shutdown()
        server.server_close()
