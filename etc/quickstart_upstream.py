#!/usr/bin/env python3
"""A small upstream to try slotgate with: answers every request with what it received, as JSON.

HTTP/1.1 with keep-alive, one thread per connection, on 127.0.0.1 and a port that the kernel chooses.
"""

import argparse
import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True      # head and body are two writes; the second must not wait for an ACK

    def version_string(self):
        return "quickstart-upstream"

    def read_body(self):
        """The length of the body, which is read to its end so that the connection can be used again."""
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            total = 0
            while True:
                size = int(self.rfile.readline().split(b";")[0], 16)
                total += len(self.rfile.read(size))
                if size == 0:
                    while self.rfile.readline().strip():
                        pass
                    return total
                self.rfile.readline()
        return len(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def answer(self):
        body_bytes = self.read_body()
        received = {
            "method": self.command,
            "path": self.path,
            "headers": [[name, value] for name, value in self.headers.items()],
            "body_bytes": body_bytes,
        }
        body = (json.dumps(received, indent=2) + "\n").encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = answer

    def log_message(self, format, *args):
        """Silent: the gateway's access log shows every request."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        """A client that went away is no news here."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0, help="default: one that is free")
    parser.add_argument("--port-file", help="the port is written here once the server listens")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with Server(("127.0.0.1", args.port), Echo) as server:
        port = server.server_address[1]
        if args.port_file:
            with open(args.port_file + ".new", "w", encoding="ascii") as out:
                out.write(f"{port}\n")
            os.replace(args.port_file + ".new", args.port_file)
        else:
            print(f"http://127.0.0.1:{port}", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
