"""What is kept of each plan: figures of its Result by name, with unit and which way is better. No second formula."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from planner.best import METRICS as RANKED
from planner.energy import HOURS_PER_MONTH
from planner.errors import unknown
from planner.result import Result
from planner.sweep.design import SweepError
from planner.targets import meets
from planner.words.names import HEADLINE

Figures = dict[str, float | None]


@dataclass(frozen=True)
class Metric:
    """One figure: its name and unit in words, which way is better (None: neither), and where a Result holds it."""

    key: str
    name: str
    unit: str
    more_is_better: bool | None
    read: Callable[[Result], float | None]


def _of_headline(key: str) -> Callable[[Result], float | None]:
    return lambda result: getattr(result.headline, key)


def tokens_per_s_per_gpu(result: Result) -> float | None:
    """Output tokens/s of the system by its GPUs; None without a GPU or a plan that fits."""
    rate, gpus = result.headline.tokens_per_s_system, result.system.gpus
    return rate / gpus if rate is not None and gpus else None


def _per_dollar(result: Result) -> float | None:
    usd = result.headline.usd_per_million_output_tokens
    return 1e6 / usd if usd else None


def _bound_share(result: Result) -> float | None:
    return result.decode.bound_shares.get(result.decode.bound_by) if result.decode else None


def _free_hbm(result: Result) -> float | None:
    tiers = [tier for tier in result.memory.tiers if tier.tier == "gpu"] if result.memory else []
    return tiers[0].free_bytes if tiers else None


def _load_cost(result: Result) -> float | None:
    """USD of all systems per million output tokens that the load asks for; None without a load."""
    found, w = result.capacity, result.scenario.workload
    if found is None or not found.load_requests_per_s:
        return None
    tokens = found.load_requests_per_s * w.output_tokens * HOURS_PER_MONTH * 3600
    return found.usd_per_month / tokens * 1e6


def _of(part: str, name: str) -> Callable[[Result], float | None]:
    """A figure of one part of a Result; None where the plan has no such part."""

    def read(result: Result) -> float | None:
        held = getattr(result, part)
        return None if held is None else getattr(held, name)

    return read


_MORE: tuple[Metric, ...] = (
    Metric("tokens_per_s_gpu", "output tokens per second and GPU", "output tok/s per GPU", True, tokens_per_s_per_gpu),
    Metric("tokens_per_usd", "output tokens per dollar", "output tokens per USD", True, _per_dollar),
    Metric(
        "gco2e_per_million_output_tokens",
        "carbon of a million output tokens",
        "gCO₂e",
        False,
        _of("energy", "gco2e_per_million_output_tokens"),
    ),
    Metric("average_w", "mean power of a system while decoding", "W", False, _of("energy", "average_w")),
    Metric("capex_usd", "price of one system", "USD", False, _of("cost", "capex_usd")),
    Metric("usd_per_hour", "cost of one system per hour", "USD/h", False, _of("cost", "usd_per_hour")),
    Metric(
        "system_requests_per_s",
        "requests per second that one system carries at full use",
        "requests/s",
        True,
        _of("capacity", "system_requests_per_s"),
    ),
    Metric("systems_needed", "systems needed", "systems", False, _of("capacity", "systems_needed")),
    Metric("load_requests_per_s", "offered load", "requests/s", None, _of("capacity", "load_requests_per_s")),
    Metric("utilisation", "utilisation", "share", None, _of("capacity", "utilisation")),
    Metric("usd_per_million_served", "cost of all systems per million output tokens served", "USD", False, _load_cost),
    Metric(
        "experts_in_hbm",
        "experts of a layer resident in HBM",
        "experts",
        None,
        lambda r: r.policy.gpu_experts_per_layer if r.headline.fits else None,
    ),
    Metric("hbm_free_bytes", "HBM left free", "bytes", None, _free_hbm),
    Metric("largest_batch", "largest batch that fits", "sequences", True, _of("memory", "largest_batch")),
    Metric("bound_share", "share of the step that its bound takes", "share", None, _bound_share),
)

METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        **{key: Metric(key, *HEADLINE[key], more, _of_headline(key)) for key, more in RANKED.items()},
        **{metric.key: metric for metric in _MORE},
    }
)


def metric(key: str) -> Metric:
    """The metric of that name. Raises SweepError with the nearest."""
    if key not in METRICS:
        raise SweepError(unknown("The metric", key, METRICS))
    return METRICS[key]


def figures_of(result: Result) -> Figures:
    """Every metric of a result; None where the plan has none."""
    return {key: None if (value := one.read(result)) is None else float(value) for key, one in METRICS.items()}


def meets_slo(result: Result) -> bool | None:
    """Whether the plan meets the targets of its scenario; None where it states none, or does not fit."""
    return meets(result.scenario.workload, result.headline.ttft_s, result.headline.tpot_s)
