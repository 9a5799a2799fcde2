"""A TCP proxy that loses the server's reply to COMMIT: the answer is stored and nobody hears of it."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class DroppingProxy:
    """Between a client and a server; `drop` is which COMMIT from now on loses its reply: 1 the next, 0 none."""

    def __init__(self, port: int) -> None:
        self.server, self.drop, self.dropped = port, 0, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self.listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.create_connection(("127.0.0.1", self.server))
        losing = threading.Event()
        back = threading.Thread(target=self._back, args=(server, client, losing), daemon=True)
        back.start()
        try:
            while data := client.recv(65536):
                if self.drop > 0 and b"COMMIT" in data:
                    self.drop -= 1
                    if self.drop == 0:
                        losing.set()
                server.sendall(data)
        except OSError:
            pass
        finally:
            _hang_up(server, client)

    def _back(self, server: socket.socket, client: socket.socket, losing: threading.Event) -> None:
        try:
            while data := server.recv(65536):
                if losing.is_set():
                    self.dropped += 1
                    break
                client.sendall(data)
        except OSError:
            pass
        finally:
            _hang_up(server, client)


def _hang_up(*sockets: socket.socket) -> None:
    """Closing alone would not wake the thread that reads."""
    for one in sockets:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()
