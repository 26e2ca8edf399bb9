"""Serve the page with Streamlit on the wanted port, or on the next free one."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PORTS_TRIED = 100


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen on this port now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        if os.name == "posix":  # as servers do: a port in TIME_WAIT is free
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def port_number(text: str) -> int:
    """A port from the command line or from $PORT."""
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(
            f"port is {text!r}; a whole number from 1 to 65535 is accepted, for example 8501"
        )
    return int(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=port_number, default=8501, help="first port to try")
    wanted = parser.parse_args()
    last = min(wanted.port + PORTS_TRIED, 65536)
    port = next((p for p in range(wanted.port, last) if is_free(wanted.host, p)), None)
    if port is None:
        print(
            f"No port from {wanted.port} to {last - 1} can be used on {wanted.host}: give one with PORT=.",
            file=sys.stderr,
        )
        return 1
    if port != wanted.port:
        print(f"Port {wanted.port} is in use, so the page is served on {port}.")
    shown = "localhost" if wanted.host in ("127.0.0.1", "0.0.0.0", "::", "::1") else wanted.host
    print(f"Tierline: http://{shown}:{port}  (Ctrl+C stops it)", flush=True)
    os.chdir(ROOT)
    command = [sys.executable, "-m", "streamlit", "run", "app.py"]
    command += ["--server.address", wanted.host, "--server.port", str(port), "--server.headless", "true"]
    os.execv(command[0], command)


if __name__ == "__main__":
    sys.exit(main())
