"""What a result rests on: the user's own edits first, then the inputs with ranges by how far they move the answer."""

from __future__ import annotations

from hardware import path_schema
from planner.evaluate import Evaluation
from planner.ranges import LOCALITY, LOCALITY_RANGE, SIGMA, SIGMA_RANGE, Ranges, ranged
from planner.result import Assumption, Interval

MATTERS = 5e-4  # relative change of a headline figure below which an input is left out of the list


def assumptions(found: Evaluation, spread: Ranges) -> tuple[Assumption, ...]:
    """Figures that a plan used: edited ones, those with a range, and those that nobody measured or published."""
    system = found.ctx.machine.figures.system
    labels = {spec.path: (spec.label, spec.unit) for spec in path_schema()}
    uncertain = ranged(found)
    measured = set(system.measured)
    rows = []
    for path in dict.fromkeys([*system.edited, *found.ctx.machine.figures.used, *uncertain]):
        figure = system.figures[path]
        if figure.value is None or not (
            figure.edited or path in uncertain or path in measured or figure.kind == "assumed"
        ):
            continue
        label, unit = labels[path]
        moves = spread.moves.get(path, {})
        if not figure.edited and path not in measured and not _matters(found, path, moves):
            continue
        rows.append(
            Assumption(
                path=f"system.overrides.{path}",
                label=label,
                value=figure.value,
                unit=unit,
                low=None if figure.edited else figure.low,
                high=None if figure.edited else figure.high,
                source=figure.source,
                date=figure.date,
                kind=figure.kind,
                edited=figure.edited,
                moves_tpot=moves.get("tpot_s"),
                moves_cost=moves.get("usd_per_million_output_tokens"),
            )
        )
    rows.extend(_of_the_engine(found, spread))
    return tuple(sorted(rows, key=lambda a: (not a.edited, -_weight(a))))


def _matters(found: Evaluation, path: str, moves: dict[str, Interval]) -> bool:
    """Whether a figure moves this answer; without an answer, whether it belongs to the ledger that is too full."""
    if not found.fits:
        return path.endswith(("capacity_bytes", "capacity_bytes_per_dimm", "reserve_bytes"))
    return not moves or any(abs(change) > MATTERS for pair in moves.values() for change in pair)


def _weight(a: Assumption) -> float:
    moved = (*(a.moves_tpot or (0.0, 0.0)), *(a.moves_cost or (0.0, 0.0)))
    return max(abs(m) for m in moved)


def _of_the_engine(found: Evaluation, spread: Ranges) -> list[Assumption]:
    scenario, rows = found.ctx.scenario, []
    if scenario.routing.source == "generated":
        rows.append(
            _of_routing(
                SIGMA,
                "Load skew between the experts of a layer, standard deviation of ln(load)",
                "",
                scenario.routing.sigma,
                SIGMA_RANGE,
                "DeepSeek-V3/R1 on mixed traffic: load histogram, top-32 share and maximum over mean agree on 0.7; 0.5 "
                "for pooled domains, 0.9 to 1.1 for a single one",
                spread,
            )
        )
    if scenario.routing.source == "generated" and found.policy.ordered:
        rows.append(
            _of_routing(
                LOCALITY,
                "Locality: probability that a choice repeats one of an earlier token of its request",
                "probability",
                scenario.routing.locality,
                LOCALITY_RANGE,
                "0.55 gives the overlap of nearby tokens of DeepSeek-V2-Lite (ESFT law task), gpt-oss-20b and about "
                "that of Mixtral-8x7B, and LRU hit rates within 0.08 of those published for DeepSeek-V4-Flash; some "
                "models have hardly any",
                spread,
            )
        )
    if scenario.workload.draft_tokens:
        rows.append(
            Assumption(
                path="workload.draft_acceptance",
                label="Acceptance of a drafted token",
                value=scenario.workload.draft_acceptance,
                unit="share",
                source="chosen in the scenario; depends on the text and the drafter"
                + (
                    ""
                    if found.ctx.work.mtp_parameters
                    else "; this model stores no MTP module, drafting itself is not charged"
                ),
                kind="assumed",
            )
        )
    if found.ready is not None:
        rows.append(
            Assumption(
                path="engine.activation_bytes",
                label="Activations: hidden vectors of a row that live at once",
                value=6.0,
                unit="vectors",
                source="counted on a transformer block with flash attention, beside its experts' up and gate outputs",
                kind="assumed",
            )
        )
    if found.ctx.scenario.policy.weight_bits is None and found.policy.default_bits is not None:
        rows.append(
            Assumption(
                path="policy.weight_bits",
                label="Mean bits of the experts outside HBM",
                value=found.policy.default_bits,
                unit="bit",
                source=found.policy.source,
                kind="published-simulation",
            )
        )
    return rows


def _of_routing(
    path: str, label: str, unit: str, value: float, usual: Interval, source: str, spread: Ranges
) -> Assumption:
    """A figure of the routing generator, its usual range widened to what the scenario says."""
    moves = spread.moves.get(path, {})
    return Assumption(
        path=path,
        label=label,
        value=value,
        unit=unit,
        low=min(usual[0], value),
        high=max(usual[1], value),
        source=source,
        date="2026",
        kind="fitted",
        moves_tpot=moves.get("tpot_s"),
        moves_cost=moves.get("usd_per_million_output_tokens"),
    )
