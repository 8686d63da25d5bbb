"""A server that answers every GET with nothing; its child ignores SIGTERM, as vLLM's engine process may."""

from __future__ import annotations

import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


class Health(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


child = subprocess.Popen([sys.executable, "-c", STUBBORN])
print(f"child {child.pid}", flush=True)
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Health).serve_forever()
