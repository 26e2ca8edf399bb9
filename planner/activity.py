"""What one pass did: the only thing that energy and cost need to know of the engine.

The engine fills an :class:`Activity` for a decode step and for the prefill of a prompt; :class:`Mix` says
how long one request keeps the machine. Times in seconds, amounts for the whole system (all nodes).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

# Busy time is a sum of operations that the engine adds up in another order than the wall time.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Activity:
    """One pass, or several of them added up.

    ``*_busy_s`` is the mean over the devices of that kind (all GPUs of the system, all sockets, all NDP
    DIMMs, all CXL devices) of the seconds in which the device works; it is at most ``seconds``. FLOP and
    bytes are the sum over all devices. ``dram_bytes`` cross the host channels (CPU reads, DMA and KV
    alike); ``ndp_bytes`` are read inside the ranks and never cross a channel. ``gpu_flop`` are 16-bit FLOP: FLOP
    in a narrower format count as the BF16 rate over their own rate (half on a card whose FP8 is twice as fast).

    ``tokens`` is what the pass is charged to: output tokens for decode, prompt tokens for prefill, those
    found in the prefix cache included. Raises ValueError for a negative or non-finite amount, and for a
    device that is busy longer than the pass lasts.
    """

    seconds: float = 0.0
    tokens: float = 0.0
    gpu_busy_s: float = 0.0
    gpu_flop: float = 0.0
    hbm_bytes: float = 0.0
    cpu_busy_s: float = 0.0
    cpu_flop: float = 0.0
    dram_bytes: float = 0.0
    ndp_busy_s: float = 0.0
    ndp_flop: float = 0.0
    ndp_bytes: float = 0.0
    cxl_busy_s: float = 0.0
    cxl_flop: float = 0.0
    cxl_bytes: float = 0.0
    pcie_bytes: float = 0.0
    cxl_link_bytes: float = 0.0
    scaleup_bytes: float = 0.0
    network_bytes: float = 0.0
    dimm_link_bytes: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            amount = getattr(self, field.name)
            if not (math.isfinite(amount) and amount >= 0):
                raise ValueError(f"{field.name} of a pass is {amount}; it must be a finite number, zero or more")
        for name in ("gpu_busy_s", "cpu_busy_s", "ndp_busy_s", "cxl_busy_s"):
            if getattr(self, name) > self.seconds * (1 + _ROUNDING):
                raise ValueError(
                    f"{name} of a pass is {getattr(self, name)} s, longer than the pass itself ({self.seconds} s)"
                )

    def __add__(self, other: Activity) -> Activity:
        """One pass after the other."""
        return Activity(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __mul__(self, times: float) -> Activity:
        """The same pass ``times`` times over, tokens included."""
        return Activity(*(getattr(self, f.name) * times for f in fields(self)))

    __rmul__ = __mul__


@dataclass(frozen=True)
class Mix:
    """How long one request keeps one system, when the machine is always full: prefill and decode in turn.

    ``seconds_per_*_token`` is machine time: the seconds of the whole system that one token occupies (a
    decode step of 0.5 s that yields 100 tokens is 5 ms per output token), not the latency that a user sees.
    """

    input_tokens: float
    output_tokens: float
    seconds_per_input_token: float
    seconds_per_output_token: float

    def __post_init__(self) -> None:
        for field in fields(self):
            amount = getattr(self, field.name)
            if not (math.isfinite(amount) and amount >= 0):
                raise ValueError(
                    f"{field.name} of the request mix is {amount}; it must be a finite number, zero or more"
                )
        if self.seconds_per_request <= 0:
            raise ValueError("a request that takes no machine time has no cost; the request mix adds up to 0 s")

    @classmethod
    def of(cls, decode: Activity, prefill: Activity, prompt_tokens: float, output_tokens: float) -> Mix:
        """From one decode pass and one prefill pass (each charged to at least one token)."""
        if decode.tokens <= 0 or prefill.tokens <= 0:
            raise ValueError("a pass that yields no token cannot be charged to tokens")
        return cls(prompt_tokens, output_tokens, prefill.seconds / prefill.tokens, decode.seconds / decode.tokens)

    @property
    def prefill_s_per_request(self) -> float:
        return self.input_tokens * self.seconds_per_input_token

    @property
    def decode_s_per_request(self) -> float:
        return self.output_tokens * self.seconds_per_output_token

    @property
    def seconds_per_request(self) -> float:
        """Machine time of one request, s."""
        return self.prefill_s_per_request + self.decode_s_per_request

    @property
    def requests_per_s(self) -> float:
        """Requests per second of one system at full use, in the steady mix."""
        return 1.0 / self.seconds_per_request

    @property
    def output_tokens_per_s(self) -> float:
        """Output tokens per second of one system at full use, prefill and decode sharing the machine."""
        return self.output_tokens * self.requests_per_s

    @property
    def decode_share(self) -> float:
        """Share of the working time that is decode."""
        return self.decode_s_per_request / self.seconds_per_request
