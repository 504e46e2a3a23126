"""A proxy in front of PostgreSQL that breaks connections in the middle of COMMIT."""

import select
import socket
import threading
from contextlib import suppress


class Proxy:
    """Forward connections to a port; break the connections whose COMMIT ``fate`` selects.

    ``fate`` is called with the number of each COMMIT. It returns ``pass``, ``before`` (the server
    never receives the COMMIT) or ``after`` (it takes effect, but the client gets no answer).
    """

    def __init__(self, port, fate):
        self.server_port, self.fate, self.armed, self.commits = port, fate, False, 0
        self.broken = {"before": 0, "after": 0}
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()

    def _accept(self):
        with suppress(OSError):
            while True:
                client = self.listener.accept()[0]
                threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def _forward(self, client):
        with (
            client,
            suppress(OSError),
            socket.create_connection(("127.0.0.1", self.server_port)) as server,
        ):
            while True:
                for ready in select.select([client, server], [], [])[0]:
                    data = ready.recv(1 << 16)
                    if not data:
                        return
                    if ready is server:
                        client.sendall(data)
                        continue
                    fate = self._fate_of(data)
                    if fate == "before":
                        return
                    server.sendall(data)
                    if fate == "after":
                        while b"COMMIT\x00" not in server.recv(1 << 16):
                            pass
                        return

    def _fate_of(self, data):
        if not self.armed or b"COMMIT\x00" not in data:
            return "pass"
        with self.lock:
            self.commits += 1
            fate = self.fate(self.commits)
            if fate != "pass":
                self.broken[fate] += 1
        return fate
