"""The worker process: reads scenarios from its standard input, plans them, writes outcomes to its standard output.

Started as ``python -m planner.sweep.executors.worker`` by :mod:`planner.sweep.executors.processes`, and by nobody
else: both ends are the same program, which is why they may speak pickle. It ends when its input does.
"""

from __future__ import annotations

import gc
import os
import pickle
import struct
import sys
from typing import Any, BinaryIO

SIZE = struct.Struct(">Q")


def send(stream: BinaryIO, value: Any) -> None:
    """One value, its length before it."""
    data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(SIZE.pack(len(data)) + data)
    stream.flush()


def receive(stream: BinaryIO) -> Any:
    """The next value. Raises EOFError when the other end is gone."""
    return pickle.loads(_exactly(stream, SIZE.unpack(_exactly(stream, SIZE.size))[0]))


def _exactly(stream: BinaryIO, count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise EOFError
    return data


def main() -> None:
    """Plan whatever comes until nothing comes any more."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever a library prints must not land between answers

    from planner.sweep.outcome import outcome

    send(answers, "ready")
    warm = False
    while True:
        try:
            scenario = receive(sys.stdin.buffer)
        except (EOFError, KeyboardInterrupt):
            return
        send(answers, outcome(scenario))
        if not warm:
            warm = True
            gc.freeze()  # modules and compiled kernels stay: looking through them again costs a tenth of each plan


if __name__ == "__main__":
    try:
        main()
    except (BrokenPipeError, KeyboardInterrupt):  # whoever asked is gone
        pass
