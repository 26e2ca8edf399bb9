"""A stand-in for torch with one GPU whose every time is known: the probe must find these numbers again.

Kernels take device time by a plain law written here; launches and waits take host time. Nothing is computed.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any


class Truth:
    """What the stand-in GPU is: bytes/s, FLOP/s, seconds."""

    name = "NVIDIA H200"
    memory_bytes = 143e9
    read_bytes_per_s = 4.0e12
    flop_per_s = 7.0e14
    half_tokens = 90.0
    link_bytes_per_s = 52e9
    pageable_bytes_per_s = 9e9
    link_latency_s = 9e-6
    kernel_s = 2e-6
    launch_s = 5e-6
    wait_s = 4e-6
    fp8 = True


class Tensor:
    def __init__(self, torch: FakeTorch, shape: tuple[int, ...], width: int, place: str) -> None:
        self.torch, self.shape, self.width, self.place = torch, shape, width, place
        self.dtype = None

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.width

    def _like(self, shape: tuple[int, ...] | None = None, width: int | None = None) -> Tensor:
        return Tensor(self.torch, self.shape if shape is None else shape, width or self.width, self.place)

    def __getitem__(self, key: Any) -> Tensor:
        if isinstance(key, slice):
            return self._like((len(range(*key.indices(self.shape[0]))), *self.shape[1:]))
        return self._like(self.shape[1:])

    def __setitem__(self, key: Any, value: Tensor) -> None:
        pass

    def t(self) -> Tensor:
        return self._like(self.shape[::-1])

    def to(self, dtype: Any) -> Tensor:
        return self._like(width=dtype if isinstance(dtype, int) else self.width)

    def sum(self, dtype: Any = None) -> Tensor:
        self.torch.kernel(self.nbytes / self.torch.truth.read_bytes_per_s)
        return self._like(())

    def _small(self, *_: Any) -> Tensor:
        self.torch.kernel(self.torch.truth.kernel_s)
        return self

    add_ = __iadd__ = __truediv__ = __mul__ = relu = _small

    def copy_(self, source: Tensor, non_blocking: bool = False) -> None:
        truth, ends = self.torch.truth, {self.place, source.place}
        if ends == {"gpu"}:
            self.torch.kernel(2 * self.nbytes / truth.read_bytes_per_s)
        else:
            rate = truth.pageable_bytes_per_s if "pageable" in ends else truth.link_bytes_per_s
            self.torch.kernel(truth.link_latency_s + self.nbytes / rate)


class Event:
    def __init__(self, torch: FakeTorch) -> None:
        self.torch, self.at = torch, 0.0

    def record(self) -> None:
        self.at = max(self.torch.host_s, self.torch.device_s)

    def elapsed_time(self, end: Event) -> float:
        return (end.at - self.at) * 1e3


class FakeTorch:
    """The part of torch that the probe and the rehearsal use."""

    __version__ = "stand-in"
    bfloat16, float16, float8_e4m3fn, float32, uint8 = 2, 2, 1, 4, 1  # a number format is its width

    def __init__(self, truth: type[Truth] = Truth) -> None:
        self.truth, self.host_s, self.device_s = truth, 0.0, 0.0
        self.recording: list[float] | None = None
        stream = SimpleNamespace(wait_stream=lambda other: None)
        self.cuda = SimpleNamespace(
            is_available=lambda: True,
            device_count=lambda: 2,
            get_device_properties=lambda i: SimpleNamespace(
                name=truth.name, total_memory=truth.memory_bytes, major=9, minor=0
            ),
            mem_get_info=lambda: (int(truth.memory_bytes), int(truth.memory_bytes)),
            empty_cache=lambda: None,
            Stream=lambda: stream,
            current_stream=lambda: stream,
            stream=self._stream,
            graph=self._graph,
            CUDAGraph=lambda: Graph(self),
            Event=lambda enable_timing: Event(self),
            synchronize=self._wait,
        )
        self.nn = SimpleNamespace(functional=SimpleNamespace(silu=lambda t: t._small()))

    def perf_counter(self) -> float:
        self.host_s += 1e-8
        return self.host_s

    def kernel(self, seconds: float) -> None:
        if self.recording is not None:
            self.recording.append(seconds)
            return
        self.host_s += self.truth.launch_s
        self.device_s = max(self.device_s, self.host_s) + seconds

    def device(self, kind: str, index: int) -> str:
        return "gpu"

    def _make(self, shape: Any, dtype: int = 4, device: str | None = None, pin_memory: bool = False) -> Tensor:
        size = shape if isinstance(shape, tuple) else (shape,)
        return Tensor(self, size, dtype, device or ("pinned" if pin_memory else "pageable"))

    ones = empty = randn = zeros = _make

    def empty_like(self, other: Tensor) -> Tensor:
        return other._like()

    def mm(self, x: Tensor, weights: Tensor) -> Tensor:
        rows, (inner, columns) = x.shape[0], weights.shape
        truth = self.truth
        tiles = 16 * math.ceil(rows / 16) * (1 + truth.half_tokens / (rows + truth.half_tokens))
        rate = truth.flop_per_s * 2 / weights.width
        self.kernel(truth.kernel_s + max(2 * inner * columns * tiles / rate, weights.nbytes / truth.read_bytes_per_s))
        return x._like((rows, columns), 2)

    def _scaled_mm(self, x: Tensor, weights: Tensor, **_: Any) -> Tensor:
        if not self.truth.fp8:
            raise RuntimeError("torch._scaled_mm is only supported on devices\n of compute capability >= 8.9")
        return self.mm(x, weights)

    def _wait(self) -> None:
        self.host_s = max(self.host_s, self.device_s) + self.truth.wait_s

    @contextmanager
    def _stream(self, stream: object) -> Any:
        yield

    @contextmanager
    def _graph(self, graph: Graph) -> Any:
        self.recording = []
        yield
        graph.kernels, self.recording = self.recording, None


class Graph:
    def __init__(self, torch: FakeTorch) -> None:
        self.torch, self.kernels = torch, [0.0]

    def replay(self) -> None:
        self.torch.kernel(sum(self.kernels))
