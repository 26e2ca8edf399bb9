"""The real server, as `make run` starts it, on a free port with a library of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
START_LIMIT_S = 90.0


@dataclass(frozen=True)
class Server:
    """A running server: where it answers, where it keeps its library, what it wrote."""

    url: str
    data: Path
    log: Path
    pid: int

    def output(self) -> str:
        return self.log.read_text(errors="replace")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(data: Path) -> dict[str, str]:
    """This process's environment, with the library in ``data`` and no database from outside."""
    env = {key: value for key, value in os.environ.items() if key != "TIERLINE_DATABASE_URL"}
    return env | {"TIERLINE_DATA": str(data)}


def prepare(data: Path) -> None:
    """The steps of `make run` before it serves."""
    for arguments in (["-m", "db", "migrate"], ["-m", "db", "examples"]):
        done = subprocess.run(
            [sys.executable, *arguments], cwd=ROOT, env=environment(data), capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, f"python {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}"


def _is_healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/_stcore/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """A server with its library and log in ``folder``, stopped at the end."""
    data, log = folder / "data", folder / "server.log"
    data.mkdir(parents=True)
    prepare(data)
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.headless", "true"]
    command += ["--server.address", "127.0.0.1", "--server.port", str(port), "--server.fileWatcherType", "none"]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment(data), stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
        )
    server = Server(f"http://127.0.0.1:{port}", data, log, process.pid)
    try:
        deadline = time.monotonic() + START_LIMIT_S
        while not _is_healthy(server.url):
            assert process.poll() is None, f"the server stopped at once:\n{server.output()}"
            assert time.monotonic() < deadline, f"the server is not healthy:\n{server.output()}"
            time.sleep(0.1)
        yield server
    finally:
        process.send_signal(signal.SIGINT)  # what Ctrl+C does
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
