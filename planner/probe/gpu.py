"""Times the GPU side through torch: memory, expert-shaped products, copies over the link, launch and synchronisation.

``torch`` is handed in, so that a stand-in can take its place; nothing here imports it. One GPU is measured, the first.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from typing import Any

from planner.probe.recording import GpuFacts, Point, Series

HIDDEN, INNER = 4096, 2048  # one matrix of an expert
PARAMETERS = float(HIDDEN * INNER)
POOL_BYTES = 2**30  # more than any cache on a GPU
KERNELS_PER_LAYER = 16
"""Kernels of a decoder layer as an engine with fused ones launches them: 2 norms, 2 projections, rotary and cache
write, attention (2), router, top-k, sort, 2 grouped products, activation, combine, 2 sums."""
LAYERS = 16
COPY_SIZES = (4096, 65_536, 2**20, 2**24, 2**28)
_LINK_QUERY = ("--query-gpu=pcie.link.gen.max,pcie.link.width.max", "--format=csv,noheader,nounits")


class Gpu:
    """The first GPU, by torch."""

    def __init__(self, torch: Any, repeats: int, tokens: tuple[int, ...], copy_sizes: tuple[int, ...] = COPY_SIZES):
        self.torch, self.repeats, self.tokens, self.copy_sizes = torch, repeats, tokens, copy_sizes
        self.device = torch.device("cuda", 0)
        self.how = f"torch {torch.__version__}"

    def facts(self) -> GpuFacts:
        properties = self.torch.cuda.get_device_properties(0)
        generation, lanes = link_of_driver()
        return GpuFacts(
            name=str(properties.name)[:400],
            count=self.torch.cuda.device_count(),
            memory_bytes=float(properties.total_memory),
            capability=f"{properties.major}.{properties.minor}",
            link_generation=generation,
            link_lanes=lanes,
        )

    def series(self) -> tuple[list[Series], dict[str, str]]:
        """All that can be timed, and why the rest could not."""
        found: list[Series] = []
        gaps: dict[str, str] = {}
        for name, task in (
            ("GPU memory bandwidth", self.memory),
            ("GPU products in bf16", lambda: self.products("bf16")),
            ("GPU products in fp8", lambda: self.products("fp8")),
            ("copies over the link", self.copies),
            ("launch of a layer", self.launches),
        ):
            try:
                found += task()
            except (RuntimeError, NotImplementedError, AttributeError, TypeError, ValueError, MemoryError) as error:
                gaps[name] = " ".join(str(error).split())[:300] or type(error).__name__
            finally:
                self.torch.cuda.empty_cache()
        return found, gaps

    def memory(self) -> list[Series]:
        """A sum over a large array (read only) and a copy of it (read and written)."""
        words = self.torch.ones(POOL_BYTES // 2, dtype=self.torch.bfloat16, device=self.device)
        target = self.torch.empty_like(words)
        size = float(POOL_BYTES)
        return [
            self._one("hbm_read", size, size, self.on_device(lambda: words.sum(dtype=self.torch.float32))),
            self._one("hbm_copy", size, 2 * size, self.on_device(lambda: target.copy_(words))),
        ]

    def products(self, precision: str) -> list[Series]:
        """Token batches times experts that come from memory, captured in a graph so that no launch is waited for."""
        torch = self.torch
        width = {"bf16": 2, "fp8": 1}[precision]
        # Cards before Ampere compute 16-bit products as FP16; the planner books those under the same rate.
        sixteen = torch.bfloat16 if torch.cuda.get_device_properties(0).major >= 8 else torch.float16
        count = max(2, POOL_BYTES // int(PARAMETERS * width))
        pool = torch.randn((count, INNER, HIDDEN), dtype=sixteen, device=self.device)
        one = None
        if precision == "fp8":
            pool = pool.to(torch.float8_e4m3fn)
            one = torch.ones((), dtype=torch.float32, device=self.device)
        points = []
        for tokens in self.tokens:
            rows = tokens if one is None else max(16, tokens)  # torch's FP8 product takes whole tiles of rows
            x = torch.ones((rows, HIDDEN), dtype=sixteen, device=self.device).to(pool.dtype)

            def run(x: Any = x) -> None:
                for i in range(count):
                    weights = pool[i].t()
                    if one is None:
                        torch.mm(x, weights)
                    else:
                        torch._scaled_mm(x, weights, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)

            seconds = self.on_device(self.captured(run), calls=1)
            points.append(
                Point(
                    x=rows,
                    bytes=width * PARAMETERS,
                    flop=2 * PARAMETERS * rows,
                    seconds=tuple(s / count for s in seconds),
                )
            )
        return [self._series("product", tuple(points), precision=precision, parameters=PARAMETERS)]

    def copies(self) -> list[Series]:
        """Both directions, from pinned and from pageable memory, by message size; each waits for its end."""
        found = []
        largest = max(self.copy_sizes)
        there = self.torch.empty(largest, dtype=self.torch.uint8, device=self.device)
        for memory in ("pinned", "pageable"):
            here = self.torch.ones(largest, dtype=self.torch.uint8, pin_memory=memory == "pinned")
            for direction in ("to_gpu", "to_host"):
                points = []
                for size in self.copy_sizes:
                    source, target = (here, there) if direction == "to_gpu" else (there, here)

                    def copy(target: Any = target[:size], source: Any = source[:size]) -> None:
                        target.copy_(source, non_blocking=True)
                        self.torch.cuda.synchronize()

                    points.append(Point(x=size, bytes=size, seconds=self._on_clock(copy, max(1, 2**22 // size))))
                found.append(self._series("copy", tuple(points), memory=memory, direction=direction))
        return found

    def launches(self) -> list[Series]:
        """Layers of small kernels, launched one by one and as a captured graph; and a round trip to an idle GPU."""
        x = self.torch.zeros(64, device=self.device)

        def layers() -> None:
            for _ in range(KERNELS_PER_LAYER * LAYERS):
                x.add_(1.0)

        def waited(run: Callable[[], None]) -> Callable[[], None]:
            def both() -> None:
                run()
                self.torch.cuda.synchronize()

            return both

        found = []
        for kind, run in (("layer_eager", layers), ("layer_graph", self.captured(layers))):
            seconds = tuple(s / LAYERS for s in self._on_clock(waited(run), 4))
            found.append(self._series(kind, (Point(x=KERNELS_PER_LAYER, seconds=seconds),)))
        tiny = self._on_clock(waited(lambda: x.add_(1.0)), 50)
        return [*found, self._series("sync", (Point(x=1, seconds=tiny),))]

    # --- clocks ----------------------------------------------------------------------------------------------------
    def captured(self, run: Callable[[], None]) -> Callable[[], None]:
        """The same work as a graph that is replayed; it must run once on a side stream before."""
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            run()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()
        return lambda: graph.replay()

    def on_device(self, run: Callable[[], object], calls: int = 8) -> tuple[float, ...]:
        """Seconds of one call by the GPU's own clock, by repeat."""
        torch = self.torch
        run()
        found = []
        for _ in range(self.repeats):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            for _ in range(calls):
                run()
            end.record()
            torch.cuda.synchronize()
            found.append(start.elapsed_time(end) / 1e3 / calls)
        return tuple(found)

    def _on_clock(self, run: Callable[[], object], calls: int) -> tuple[float, ...]:
        """Seconds of one call by the host's clock; ``run`` waits for its own end."""
        run()
        found = []
        for _ in range(self.repeats):
            start = time.perf_counter()
            for _ in range(calls):
                run()
            found.append((time.perf_counter() - start) / calls)
        return tuple(found)

    def _one(self, kind: str, x: float, moved: float, seconds: tuple[float, ...]) -> Series:
        return self._series(kind, (Point(x=x, bytes=moved, seconds=seconds),))

    def _series(self, kind: str, points: tuple[Point, ...], **labels: Any) -> Series:
        return Series(kind=kind, device="gpu", how=self.how, points=points, **labels)


def link_of_driver() -> tuple[int | None, int | None]:
    """PCIe generation and lanes that the first GPU can reach here, as the driver's tool says; None without it."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None, None
    try:
        answer = subprocess.run([tool, *_LINK_QUERY], capture_output=True, text=True, timeout=10, check=True)
        generation, lanes = (int(cell) for cell in answer.stdout.splitlines()[0].split(","))
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None, None
    return generation, lanes
