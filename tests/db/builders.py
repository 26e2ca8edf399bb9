"""Made-up results for tests of the store: complete enough to hold every kind of field, true of nothing."""

from __future__ import annotations

from planner.result import (
    Assumption,
    Headline,
    ModelSummary,
    Placement,
    PlacementClass,
    PolicySummary,
    Result,
    SystemSummary,
)
from planner.scenario import Scenario


def result_of(
    scenario: Scenario,
    tpot_s: float | None = 0.021,
    engine_version: str = "1.0",
    catalog_digest: str = "digest-a",
    layers: int = 2,
    experts: int = 4,
) -> Result:
    """A Result for *scenario*; ``tpot_s=None`` is a plan that does not fit."""
    fits = tpot_s is not None
    reasons = () if fits else ("GPU memory: 93.4 GB needed, 80 GiB there.",)
    return Result(
        engine_version=engine_version,
        catalog_digest=catalog_digest,
        scenario_hash=scenario.content_hash(),
        scenario=scenario,
        headline=Headline(
            fits=fits,
            reasons=reasons,
            tpot_s=tpot_s,
            tokens_per_s_user=1 / tpot_s if tpot_s else None,
            bound_by="hbm" if fits else None,
            intervals={"tpot_s": (0.018, 0.1 + 0.2)} if fits else None,
        ),
        model=ModelSummary(
            id=scenario.model.id, name="M", parameters_total=46_702_792_704, parameters_main=1, parameters_active=1,
            layers=layers, moe_layers=layers, experts=experts, top_k=2, shared_experts=0, expert_parameters=1,
            native_format="bf16", kv_bytes_per_token=131_072.0, sentence="A model.",
        ),
        system=SystemSummary(
            id=scenario.system.id, name="S", sentence="A machine.", nodes=1, gpus=2, as_published=False
        ),
        policy=PolicySummary(
            id=scenario.policy.id, name="P", sentence="A policy.", kv_location="gpu", attention_device="gpu",
            prefill="gpu", gpu_format="bf16", expert_format="bf16", parallelism="TP 2", gpu_experts_per_layer=4.0,
            source="a paper",
        ),
        placement=_placement(layers, experts) if fits else None,
        assumptions=(
            Assumption(path="a.b", label="price", value=2.0, unit="USD", source="a list", kind="assumed"),
            Assumption(path="c.d", label="kind of memory", value="DDR5", unit="", source="a sheet", kind="datasheet"),
        ),
    )  # fmt: skip


def _placement(layers: int, experts: int) -> Placement:
    def grid(values: list[float]) -> tuple[tuple[float, ...], ...]:
        return tuple(
            tuple(values[(layer * experts + e) % len(values)] for e in range(experts)) for layer in range(layers)
        )

    whole = tuple(tuple(0 for _ in range(experts)) for _ in range(layers))
    return Placement(
        layers=tuple(range(layers)),
        tier=whole,
        bits=grid([16.0, 4.16]),
        load=grid([1 / 3, 0.1 + 0.2, 1e-17, 12345.678901234567]),
        learned=grid([0.25, 1 / 7]),
        klass=whole,
        classes=(PlacementClass(tier="gpu", bits=16, format="bf16", experts=experts, token_share=1.0, why="hot"),),
        learned_on="tokens 0 to 9",
        distinct_experts_per_layer=3.5,
        tokens_per_pass=32,
    )
