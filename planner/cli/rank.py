"""``best`` ranks every policy on one machine, ``ablation`` takes the context-aware policy apart."""

from __future__ import annotations

from planner.cli.output import columns, json_text
from planner.cli.plan import build, scenario_parser

BEST = "best"


def run(command: str, arguments: list[str]) -> str:
    """The ranking or the table as text, or as JSON with ``--json``. Raises PlanError."""
    return _best(command, arguments) if command == BEST else _ablation(command, arguments)


def _best(command: str, arguments: list[str]) -> str:
    parser = scenario_parser(command, "Runs every policy that applies to a scenario's model, machine and workload.")
    parser.add_argument("--metric", metavar="NAME", default=None, help="headline figure to rank on")
    options = parser.read(arguments)
    scenario = build(options)

    from planner.best import DEFAULT_METRIC, rank
    from planner.words.formats import significant, trimmed
    from planner.words.names import HEADLINE

    ranking = rank(scenario, options.metric or DEFAULT_METRIC)
    if options.json:
        return json_text(ranking, indent=None)
    name = HEADLINE.get(ranking.metric, (ranking.metric, ""))[0]
    rows = [("policy", name, "times the best", "bound by or reason")]
    for row in ranking.rows:
        value = "" if row.value is None else significant(row.value)
        ratio = "" if row.ratio is None else trimmed(row.ratio, 3)
        rows.append((row.policy_id, value, ratio, row.reason or str(row.bound_by)))
    return f"{ranking.why}\n\n" + columns(rows[1:], header=rows[0], numbers=(1, 2))


def _ablation(command: str, arguments: list[str]) -> str:
    parser = scenario_parser(
        command, "Takes the context-aware policy apart: placement, bits, alpha, K, hot sets, budgets."
    )
    options = parser.read(arguments)
    scenario = build(options)

    from planner.ablation import context_ablation
    from planner.words.formats import significant

    found = context_ablation(scenario)
    if options.json:
        return json_text(found, indent=None)
    rows: list[tuple[str, ...]] = [
        ("group", "variant", "TPOT, ms", "tok/s", "ratio", "hot tokens", "mean bits", "loss")
    ]
    for row in found.rows:
        figures = (
            None if row.tpot_s is None else row.tpot_s * 1e3,
            row.tokens_per_s_system,
            row.ratio,
            row.hot_token_share,
            row.mean_bits,
            row.loss,
        )
        words = ["" if v is None else significant(v) for v in figures]
        rows.append((row.group, row.label if row.fits else f"{row.label} (does not fit)", *words))
    return columns(rows[1:], header=rows[0], numbers=range(2, 8))
