"""Times the CPU side: streaming reads by NUMA node and thread count, and expert-shaped products."""

from __future__ import annotations

import math
import mmap
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.probe import host, kernels
from planner.probe.recording import Point, Series

HIDDEN, INNER = 2048, 1536  # one matrix of a fine-grained expert: 3.1 million weights
PARAMETERS = float(HIDDEN * INNER)
MOST_CALLS = 200
Task = Callable[[], object]


@dataclass(frozen=True)
class Effort:
    """How long everything may take."""

    repeats: int
    seconds: float  # of one repeat of a read
    tokens: tuple[int, ...]
    dense_rows: int
    ends: float = math.inf  # on the clock of time.perf_counter; then only what is begun is finished

    @classmethod
    def of(cls, quick: bool, budget_s: float = math.inf) -> Effort:
        ends = time.perf_counter() + budget_s
        if quick:
            return cls(5, 0.03, (1, 2, 4, 16, 64, 256), 1024, ends)
        return cls(7, 0.1, (1, 2, 4, 8, 16, 32, 64, 128, 256, 512), 2048, ends)

    def again(self, done: int) -> bool:
        """Whether to repeat after ``done`` repeats."""
        return done < (self.repeats if time.perf_counter() < self.ends else 2)


class Pinned:
    """Runs one function per CPU, each in a thread of that CPU, starting together."""

    def __init__(self, cpus: Sequence[int]) -> None:
        self.cpus = list(cpus)

    def run(self, work: Sequence[Task]) -> float:
        """Seconds from the first start to the last end."""
        ready = threading.Barrier(len(work))
        spans: list[tuple[float, float]] = []
        failed: list[BaseException] = []

        def worker(cpu: int, task: Task) -> None:
            try:
                if hasattr(os, "sched_setaffinity"):
                    os.sched_setaffinity(0, {cpu})  # 0 is the calling thread
                ready.wait()
                start = time.perf_counter()
                task()
                spans.append((start, time.perf_counter()))
            except BaseException as error:
                failed.append(error)
                ready.abort()

        threads = [threading.Thread(target=worker, args=pair) for pair in zip(self.cpus, work, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]
        return max(end for _, end in spans) - min(start for start, _ in spans)


def block_bytes(l3_bytes: float | None, free_bytes: float, blocks: int) -> int:
    """Size of one node's block: four times its caches, at least 128 MiB, at most an eighth of what is free."""
    wanted = max(128 * 2**20, 4 * (l3_bytes or 64 * 2**20) / blocks)
    return int(min(wanted, (free_bytes or math.inf) / 8 / blocks)) // 4096 * 4096


def local_block(cpus: Sequence[int], size: int) -> np.ndarray:
    """int64 words that lie in the memory of these CPUs' node: each touches its own part first."""
    words = np.empty(size // 8, np.int64)
    parts = np.array_split(words, len(cpus))
    Pinned(cpus).run([lambda part=part: kernels.touch_words(part, 3) for part in parts])  # type: ignore[misc]
    return words


def read(blocks: Sequence[tuple[Sequence[int], np.ndarray]], effort: Effort) -> Point:
    """Each group of CPUs reads its block, all at once. ``x`` is the number of threads."""
    cpus = [cpu for group, _ in blocks for cpu in group]
    parts = [part for group, words in blocks for part in np.array_split(words, len(group))]
    team = Pinned(cpus)

    def once(passes: int) -> float:
        return team.run([lambda part=part: kernels.read_words(part, passes) for part in parts])  # type: ignore[misc]

    passes = max(1, round(effort.seconds / once(1)))
    moved = float(sum(part.nbytes for part in parts)) * passes
    found: list[float] = []
    while effort.again(len(found)):
        found.append(once(passes))
    return Point(x=len(cpus), bytes=moved, seconds=tuple(found))


def thread_counts(cpus: int) -> list[int]:
    """1, 2, 4, ... and all."""
    return sorted({cpus, *(2**i for i in range(cpus.bit_length()) if 2**i < cpus)})


def reads(effort: Effort) -> list[Series]:
    """Streaming reads: by node and threads, over all nodes, from the far node, with both threads of a core."""
    kernels.warm()
    by_node = host.nodes()
    first = {node: host.first_threads(cpus) for node, cpus in by_node.items()}
    size = block_bytes(host.facts().l3_bytes, host.memory_bytes()[1], len(first))
    blocks = {node: local_block(cpus, size) for node, cpus in first.items()}
    how = "compiled sum of 64-bit words, one pinned thread per core"
    found = [
        Series(
            kind="read",
            device="cpu",
            how=how,
            node=node,
            points=tuple(read([(cpus[:n], blocks[node])], effort) for n in thread_counts(len(cpus))),
        )
        for node, cpus in first.items()
    ]
    if len(first) > 1:
        everywhere = read([(cpus, blocks[node]) for node, cpus in first.items()], effort)
        found.append(Series(kind="read", device="cpu", how=how, points=(everywhere,)))
        here, there = min(first), max(first)
        far = read([(first[here], blocks[there])], effort)
        found.append(Series(kind="remote_read", device="cpu", how=how, node=here, points=(far,)))
    if any(len(by_node[node]) > len(first[node]) for node in by_node):
        both = read([(cpus, blocks[node]) for node, cpus in by_node.items()], effort)
        found.append(Series(kind="smt_read", device="cpu", how="the same, all threads of a core", points=(both,)))
    return [*found, *_page_reads(first, size, effort)]


def _page_reads(first: dict[int, list[int]], size: int, effort: Effort) -> list[Series]:
    """The first node's read with huge pages asked for, and refused; nothing where the system cannot be asked."""
    cpus = next(iter(first.values()))
    found = []
    for kind, name in (("huge_read", "MADV_HUGEPAGE"), ("small_read", "MADV_NOHUGEPAGE")):
        advice = getattr(mmap, name, None)
        if advice is None:
            return []
        area = mmap.mmap(-1, size)
        try:
            area.madvise(advice)
        except OSError:
            return []
        words = np.frombuffer(area, np.int64)
        Pinned(cpus).run([lambda p=p: kernels.touch_words(p, 3) for p in np.array_split(words, len(cpus))])  # type: ignore[misc]
        found.append(Series(kind=kind, device="cpu", how=name, points=(read([(cpus, words)], effort),)))
    return found


def timed(run: Callable[[int], object], effort: Effort) -> tuple[float, ...]:
    """Seconds of each call of ``run(i)``: calls for as long as all repeats may take, at least two.

    Each call by itself: on a busy machine a library's threads wait for one that the scheduler has stopped, and a mean
    over calls would be that wait.
    """
    run(0)  # the first call pays for buffers and idle threads
    found: list[float] = []
    end = min(effort.ends, time.perf_counter() + effort.repeats * effort.seconds)
    while len(found) < 2 or (time.perf_counter() < end and len(found) < MOST_CALLS):
        start = time.perf_counter()
        run(len(found) + 1)
        found.append(time.perf_counter() - start)
    return tuple(found)


def numpy_products(effort: Effort) -> list[Series]:
    """Products of a token batch with experts that come from memory (a pool larger than the caches), and a large one."""
    size = block_bytes(host.facts().l3_bytes, host.memory_bytes()[1], 1)
    count = max(2, size // (HIDDEN * INNER * 4))
    pool = np.random.default_rng(0).standard_normal((count, INNER, HIDDEN), np.float32) * np.float32(0.02)

    def product(tokens: int) -> Point:
        x, out = np.ones((tokens, HIDDEN), np.float32), np.empty((tokens, INNER), np.float32)
        seconds = timed(lambda i: np.matmul(x, pool[i % count].T, out=out), effort)
        return Point(x=tokens, bytes=4 * PARAMETERS, flop=2 * PARAMETERS * tokens, seconds=seconds)

    rows = effort.dense_rows
    square = np.ones((rows, rows), np.float32)
    result = np.empty_like(square)
    dense = timed(lambda i: np.matmul(square, square, out=result), effort)
    how = f"NumPy {np.__version__} with its BLAS, float32"
    return [
        Series(
            kind="product",
            device="cpu",
            how=how,
            precision="fp32",
            parameters=PARAMETERS,
            points=tuple(product(n) for n in effort.tokens),
        ),
        Series(
            kind="dense",
            device="cpu",
            how=how,
            precision="fp32",
            points=(Point(x=rows, bytes=12.0 * rows**2, flop=2.0 * rows**3, seconds=dense),),
        ),
    ]


def packed_products(effort: Effort) -> list[Series]:
    """One token times 8-bit and 4-bit weights in a plain kernel of our own, all cores; engines have theirs."""
    kernels.warm()
    cpus = [cpu for group in host.nodes().values() for cpu in host.first_threads(group)]
    size = block_bytes(host.facts().l3_bytes, host.memory_bytes()[1], 1)
    rows = max(len(cpus), size // HIDDEN)
    raw = np.random.default_rng(0).integers(0, 255, (rows, HIDDEN), np.uint8)
    x, out = np.ones(HIDDEN, np.float32), np.empty(rows, np.float32)
    halves = np.ones(HIDDEN, np.float32)
    parts = list(zip(np.array_split(raw, len(cpus)), np.array_split(out, len(cpus)), strict=True))

    def int8(part: np.ndarray, into: np.ndarray) -> Task:
        return lambda: kernels.product_int8(part.view(np.int8), x, into)

    def int4(part: np.ndarray, into: np.ndarray) -> Task:
        return lambda: kernels.product_int4(part, halves, halves, into)

    found = []
    for bits, make in ((8, int8), (4, int4)):
        tasks = [make(part, into) for part, into in parts]
        seconds = tuple(Pinned(cpus).run(tasks) for _ in range(effort.repeats + 1))[1:]
        weights = float(raw.size * 8 // bits)
        point = Point(x=bits, bytes=float(raw.nbytes), flop=2 * weights, seconds=seconds)
        found.append(
            Series(
                kind="unpack",
                device="cpu",
                how="own compiled kernel",
                precision=f"int{bits}",
                parameters=weights,
                points=(point,),
            )
        )
    return found


def torch_products(torch: Any, effort: Effort) -> tuple[list[Series], dict[str, str]]:
    """The same products in bf16 and int8 by torch's CPU libraries, and why one of them was not possible."""
    size = block_bytes(host.facts().l3_bytes, host.memory_bytes()[1], 1)
    found: list[Series] = []
    gaps: dict[str, str] = {}
    for precision, dtype, width, multiply in (
        ("bf16", torch.bfloat16, 2, torch.mm),
        ("int8", torch.int8, 1, getattr(torch, "_int_mm", None)),
    ):
        if multiply is None:
            gaps[f"CPU products in {precision}"] = "this torch has no such product"
            continue
        count = max(2, size // (HIDDEN * INNER * width))
        try:
            pool = torch.ones((count, INNER, HIDDEN), dtype=dtype)

            def product(tokens: int, pool: Any = pool, multiply: Any = multiply, width: int = width) -> Point:
                x = torch.ones((tokens, HIDDEN), dtype=pool.dtype)
                seconds = timed(lambda i: multiply(x, pool[i % len(pool)].t()), effort)
                return Point(x=tokens, bytes=width * PARAMETERS, flop=2 * PARAMETERS * tokens, seconds=seconds)

            points = tuple(product(n) for n in effort.tokens)
        except (RuntimeError, NotImplementedError, TypeError) as error:
            gaps[f"CPU products in {precision}"] = " ".join(str(error).split())[:300] or type(error).__name__
            continue
        found.append(
            Series(
                kind="product",
                device="cpu",
                how=f"torch {torch.__version__}",
                precision=precision,
                parameters=PARAMETERS,
                points=points,
            )
        )
    return found, gaps
