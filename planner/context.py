"""A scenario resolved: architecture, machine, formats and sizes, ready for a policy to place and time."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeVar, cast

import numpy as np

import models
from hardware import System, load_system, systems
from hardware.system import NO_FIGURES
from models import Architecture, LayerWork, formats
from planner import measured_machines
from planner.calibration import calibrated_figures
from planner.devices import Machine
from planner.errors import PlanError, unknown
from planner.machine import machine
from planner.physics.operation import Array
from planner.scenario import Scenario, Workload

T = TypeVar("T")

NATIVE = "native"
CHUNK_TOKENS = 8192  # of a prefill pass where neither scenario nor policy says more
# Which parameter components stream together; names as in models.parameters(...).by_component.
ROUTED = {"routed"}
NOT_IN_A_PASS = {"mtp", "mtp_dup_tables", "scales"}
OF_WEIGHTS = ("parameters", "moe", "bytes_per_weight", "native_expert_format", "weight_ledgers", "state_bytes")
GROUPS = {
    "embed": "embed",
    "lm_head": "lm_head",
    "dense_mlp": "dense",
    "residual_mlp": "dense",
    "latent_proj": "dense",
    "shared": "shared",
    "router": "router",
    "router_bias": "router",
    "hash_tables_int": "router",
}


@dataclass(frozen=True)
class Width:
    """One stored form of a routed expert."""

    format: str  # id of a weight format, or "native"
    name: str
    bits: float
    expert_bytes: float  # one expert, scales included

    @property
    def cpu_matrix(self) -> bool:
        """Whether a CPU's matrix unit computes with this form; else its vector units do."""
        return formats.compute_path(self.format, "amx").rate != "vector"


@dataclass(frozen=True)
class Context:
    scenario: Scenario
    arch: Architecture
    work: LayerWork
    machine: Machine
    chunk_tokens: int = CHUNK_TOKENS  # of one prefill pass, at most

    def with_workload(self, workload: Workload, chunk_tokens: int) -> Context:
        """The same model on the same machine under another load; what depends on weights alone is carried over."""
        scenario = self.scenario.model_copy(update={"workload": workload})
        changed = Context(scenario, self.arch, self.work, self.machine, chunk_tokens)
        for name in OF_WEIGHTS:
            changed.__dict__[name] = getattr(self, name)
        return changed

    # --- sizes -----------------------------------------------------------------------------------------------------
    @cached_property
    def parameters(self) -> models.Parameters:
        return models.parameters(self.arch)

    @cached_property
    def moe(self) -> np.ndarray:
        """Indexes of the MoE layers, int64 [moe_layers]."""
        return np.flatnonzero(self.work.is_moe)

    @property
    def moe_layers(self) -> int:
        return len(self.moe)

    @property
    def layers(self) -> int:
        return self.arch.num_layers

    @property
    def experts(self) -> int:
        return self.arch.experts

    @property
    def top_k(self) -> int:
        return self.arch.top_k

    @property
    def expert_parameters(self) -> float:
        return float(self.arch.expert_parameters)

    @property
    def hidden_bytes(self) -> float:
        """Bytes of one token's activation at 16 bit."""
        return 2.0 * self.arch.hidden_size

    # --- formats ---------------------------------------------------------------------------------------------------
    @cached_property
    def bytes_per_weight(self) -> dict[str, float]:
        """Mean bytes of one weight of each group outside the routed experts, scales included."""
        counts = self.parameters.by_component
        sizes = _stored(self.arch, self.scenario.model.weight_format)
        weights: dict[str, float] = {}
        stored: dict[str, float] = {}
        for component, count in counts.items():
            if component in ROUTED | NOT_IN_A_PASS:
                continue
            group = GROUPS.get(component, "mixer")
            weights[group] = weights.get(group, 0.0) + count
            stored[group] = stored.get(group, 0.0) + sizes[component]
        return {g: stored[g] / weights[g] if weights[g] else 0.0 for g in weights}

    @cached_property
    def weight_ledgers(self) -> dict[Hashable, tuple[tuple[str, float, float], ...]]:
        """What the ledger of the GPUs holds of weights outside the experts, by layout; filled by who makes ledgers."""
        return {}

    @cached_property
    def memo(self) -> dict[str, tuple[tuple[object, ...], object]]:
        """The last answer of a costly question that several parts of one plan ask, see :meth:`once`."""
        return {}

    def once(self, question: str, about: tuple[object, ...], answer: Callable[[], T]) -> T:
        """``answer()``, worked out once as long as the question is about the very same objects."""
        known = self.memo.get(question)
        if (
            known is None
            or len(known[0]) != len(about)
            or any(a is not b for a, b in zip(known[0], about, strict=True))
        ):
            known = self.memo[question] = (about, answer())
        return cast(T, known[1])

    def group_bytes(self, group: str, parameters: Array | float) -> Array:
        return np.asarray(parameters, float) * self.bytes_per_weight.get(group, 0.0)

    def width(self, fmt: str) -> Width:
        """The routed expert stored in format ``fmt`` ("native" = as the checkpoint publishes it)."""
        size = models.expert_bytes(self.arch, fmt)
        if fmt == NATIVE:
            real = self.native_expert_format
            return Width(real, formats.FORMATS[real].name, float(formats.FORMATS[real].nominal_bits), size)
        return Width(fmt, formats.FORMATS[fmt].name, float(formats.FORMATS[fmt].nominal_bits), size)

    @cached_property
    def native_expert_format(self) -> str:
        return self.arch.native.format_of("routed")

    @cached_property
    def gpu_width(self) -> Width:
        """Form of the routed experts that are resident on the GPU."""
        return self.width(self.scenario.model.weight_format)

    def other_widths(self, default_bits: float | None = None) -> list[tuple[Width, float]]:
        """Forms of the routed experts that are not resident, widest first, with the share of experts in each.

        A format named in the scenario wins, then ``weight_bits``, then ``default_bits``, then the GPU's own form.
        A mean between two widths is a mix of the two neighbours, the more loaded experts at the wider one.
        """
        policy = self.scenario.policy
        if policy.expert_format is not None:
            return [(self.width(policy.expert_format), 1.0)]
        bits = policy.weight_bits if policy.weight_bits is not None else default_bits
        if bits is None:
            return [(self.gpu_width, 1.0)]
        steps = (1, 2, 3, 4, 8, 16)
        low = max(s for s in steps if s <= bits)
        if low == bits:
            return [(self.width(formats.format_for_bits(low)), 1.0)]
        high = min(s for s in steps if s > bits)
        share = (bits - low) / (high - low)
        return [
            (self.width(formats.format_for_bits(high)), share),
            (self.width(formats.format_for_bits(low)), 1.0 - share),
        ]

    def gpu_rate(self, fmt: str) -> str:
        """FLOP rate key ("bf16", "fp8", ...) that products with weights in ``fmt`` run at on this GPU."""
        gpu = self.machine.gpu
        assert gpu is not None
        path = formats.compute_path(fmt, gpu.device_class or "")
        if path.how == "no" or path.rate is None:
            raise PlanError(
                f"weights in {formats.FORMATS[fmt].name} cannot be computed on this GPU ({gpu.device_class}); "
                "choose another format."
            )
        return path.rate

    @cached_property
    def dense_rate(self) -> str:
        """FLOP rate of attention, dense and shared weights on the GPU."""
        return self.gpu_rate(self.dense_format)

    @cached_property
    def dense_format(self) -> str:
        """Format of most weights outside the routed experts."""
        fmt = self.scenario.model.weight_format
        return self.arch.native.format_of(_attention_component(self.arch)) if fmt == NATIVE else fmt

    @property
    def dense_cpu_matrix(self) -> bool:
        """Whether a CPU's matrix unit computes with the weights outside the routed experts."""
        return formats.compute_path(self.dense_format, "amx").rate != "vector"

    # --- context ---------------------------------------------------------------------------------------------------
    @cached_property
    def full_context_tokens(self) -> int:
        w = self.scenario.workload
        return w.prompt_tokens + w.output_tokens

    @cached_property
    def decode_contexts(self) -> np.ndarray:
        """Contexts at which a decode step is timed: midpoints of equal stretches of the output, [contexts]."""
        w = self.scenario.workload
        stretches = min(4, w.output_tokens)
        return w.prompt_tokens + w.output_tokens * (np.arange(stretches) + 0.5) / stretches

    @cached_property
    def kv_read_bytes(self) -> Array:
        """KV and index bytes that one decode token of one sequence reads, [contexts, 1, layers]."""
        kv = self.scenario.model.kv_format
        return np.stack([models.kv_bytes_read(self.arch, kv, float(c)) for c in self.decode_contexts])[:, None]

    @cached_property
    def attention_flop(self) -> Array:
        """Score, value and index FLOP of one decode token, projections excluded, [contexts, 1, layers]."""
        return np.stack([models.attention_flops(self.arch, float(c)) for c in self.decode_contexts])[:, None]

    @cached_property
    def state_bytes(self) -> Array:
        """Recurrent state of one sequence, [layers]; read and written once per pass."""
        return models.recurrent_state_bytes(self.arch)

    def kv_held_bytes(self, context_tokens: float | None = None) -> float:
        """KV cache and recurrent state that one sequence holds at the end of its output (or at a given context)."""
        kv = self.scenario.model.kv_format
        at = float(self.full_context_tokens if context_tokens is None else context_tokens)
        return float(models.kv_bytes_held(self.arch, kv, at).sum() + self.state_bytes.sum())

    # --- speculation -----------------------------------------------------------------------------------------------
    @property
    def tokens_per_sequence(self) -> int:
        """Tokens of one sequence in a decode pass: the next one and the drafted ones that are verified with it."""
        return 1 + self.scenario.workload.draft_tokens

    @property
    def accepted_per_pass(self) -> float:
        """Expected tokens that a pass yields per sequence: 1 + a + a^2 + ... + a^d (Leviathan et al., 2023)."""
        a = self.scenario.workload.draft_acceptance
        return float(sum(a**i for i in range(self.tokens_per_sequence)))

    @property
    def request_steps(self) -> int:
        """Decode passes after which a request has all its output."""
        return max(1, round(self.scenario.workload.output_tokens / self.accepted_per_pass))

    @property
    def new_prompt_tokens(self) -> int:
        """Prompt tokens that are computed: those not found in the prefix cache, at least one."""
        w = self.scenario.workload
        return max(1, round(w.prompt_tokens * (1.0 - w.prefix_hit_share)))

    def option(self, name: str, default: bool | int | float | str) -> bool | int | float | str:
        return self.scenario.policy.options.get(name, default)


@lru_cache(maxsize=64)
def _stored(arch: Architecture, fmt: str) -> dict[str, float]:
    return models.stored_bytes(arch, fmt)


def _attention_component(arch: Architecture) -> str:
    """The component that most of the attention weights belong to."""
    counts = models.parameters(arch).by_component
    return max((c for c in counts if c.startswith("attn")), key=lambda c: counts[c], default="attn")


def architecture(scenario: Scenario) -> Architecture:
    """The catalog's architecture, or the one that the pasted config describes (read once per content)."""
    if scenario.model.config is not None:
        text = json.dumps(scenario.model.config, sort_keys=True)
        return _pasted(text, scenario.model.id)
    if scenario.model.id not in (known := models.model_ids()):
        raise PlanError(unknown("model.id", scenario.model.id, known))
    return models.load(scenario.model.id)


@lru_cache(maxsize=32)
def _pasted(text: str, name: str) -> Architecture:
    return models.read_config(json.loads(text), name)


def machine_parts(scenario: Scenario, overrides: Mapping[str, float] | None = None) -> System:
    """The scenario's machine, with ``overrides`` on top of its own. Raises PlanError or HardwareError."""
    chosen = scenario.system
    if chosen.id not in (known := [s.id for s in systems()]):
        raise PlanError(unknown("system.id", chosen.id, known))
    fitted = calibrated_figures(chosen.calibration, scenario.policy.engine)
    parts, measured = chosen.parts, NO_FIGURES
    if chosen.measured is not None:
        parts, measured = measured_machines.get(chosen.measured).applied(chosen.parts)
    return load_system(chosen.id, {**chosen.overrides, **(overrides or {})}, parts, fitted, measured)


def resolve(scenario: Scenario, overrides: Mapping[str, float] | None = None) -> Context:
    """Resolve a scenario; ``overrides`` are figures on top of the scenario's own (used for ranges and marginals)."""
    arch = architecture(scenario)
    if not arch.plannable:
        raise PlanError(f"{arch.name} can be shown and counted, but not planned: {arch.why_not}")
    for field_name, fmt in (
        ("model.weight_format", scenario.model.weight_format),
        ("policy.expert_format", scenario.policy.expert_format),
    ):
        if fmt is not None and fmt != NATIVE and fmt not in formats.FORMATS:
            raise PlanError(unknown(field_name, fmt, [NATIVE, *formats.FORMATS]))
    system = machine_parts(scenario, overrides)
    bounce = bool(scenario.policy.options.get("cxl_bounce", False))
    chunk = scenario.policy.prefill_chunk_tokens or CHUNK_TOKENS
    return Context(scenario, arch, models.work(arch), machine(system, cxl_bounce=bounce), chunk)
