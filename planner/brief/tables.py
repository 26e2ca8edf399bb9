"""The tables of a brief, for spreadsheets and for CSV: plain numbers in SI units, one table a list of rows."""

from __future__ import annotations

from dataclasses import dataclass

from planner.brief.build import plain
from planner.brief.records import Brief
from planner.brief.turns import PENDING
from planner.difference import FieldRow, differing_fields
from planner.words import names, sureness

Cell = str | float | int | bool | None


@dataclass(frozen=True)
class Sheet:
    """One table: its name, its head, its rows."""

    name: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def results(brief: Brief) -> Sheet:
    """Headline figures with ranges, energy, power, carbon, time and memory."""
    rows: list[tuple[Cell, ...]] = [("decision", "", brief.decision, None, None, "")]
    head = brief.headline
    for key, (label, unit) in names.HEADLINE.items():
        low, high = (head.intervals or {}).get(key, (None, None))
        rows.append((key, label, getattr(head, key), low, high, unit))
    rows.append(("bound_by", "what bounds a decode step", names.bound(head.bound_by) if head.bound_by else None,
                 None, None, ""))  # fmt: skip
    if brief.energy is not None:
        energy = brief.energy
        rows += [
            ("average_w", "power of one system while decoding, at the wall", energy.average_w, None, None, "W"),
            ("peak_w", "peak power of one system", energy.peak_w, None, None, "W"),
            ("kwh_per_month", "energy of one system, PUE included", energy.kwh_per_month, None, None, "kWh/month"),
            ("gco2e_per_million_output_tokens", "carbon, PUE included", energy.gco2e_per_million_output_tokens, None,
             None, "gCO2e per million output tokens"),
        ]  # fmt: skip
    if brief.capacity is not None:
        rows.append(("average_kw", "power of all systems, PUE included", brief.capacity.average_kw, None, None, "kW"))
    turning = "what would change the decision"
    rows += [(f"turn_{number}", turning, text, None, None, "") for number, text in enumerate(turns_told(brief), 1)]
    for target in brief.targets:
        rows.append((f"target_{target.key}", f"target of {target.name}", target.target_s, None, None, "s"))
    rows += [(f"step_{p.part}", f"exposed in a decode step: {names.part(p.part)}", p.exposed_s, None, None, "s")
             for p in brief.step]  # fmt: skip
    for tier in brief.memory:
        rows += [
            (f"memory_{tier.tier}_used", f"{tier.name}, used", tier.used_bytes, None, None, "bytes"),
            (f"memory_{tier.tier}_capacity", f"{tier.name}, capacity", tier.capacity_bytes, None, None, "bytes"),
        ]
    return Sheet("Results", ("key", "figure", "value", "low", "high", "unit"), tuple(rows))


def turns_told(brief: Brief) -> tuple[str, ...]:
    """What would change the decision; in a copy made before all of it was there, that it is not all."""
    return brief.turns if brief.turns_complete else (*brief.turns, PENDING)


def options(brief: Brief) -> Sheet:
    """The options with their headline figures."""
    keys = list(names.HEADLINE)
    rows = [
        (one.name, "this plan" if one.is_this else "", "recommended" if one.recommended else "", one.meets_targets,
         one.expert_bits, one.as_routed, *(one.figures.get(key) for key in keys), one.why)
        for one in brief.options
    ]  # fmt: skip
    head = ("option", "this plan", "recommended", "meets targets", "expert bits", "as routed", *keys, "why")
    return Sheet("Options", head, tuple(rows))


def option_inputs(brief: Brief) -> Sheet:
    """Every input in which the options differ, one column for each."""
    rows = tuple((row.path, row.label, row.unit, *map(plain, row.values)) for row in differing_inputs(brief))
    return Sheet("Option inputs", ("path", "input", "unit", *(one.name for one in brief.options)), rows)


def differing_inputs(brief: Brief) -> tuple[FieldRow, ...]:
    """Inputs in which not all options agree."""
    return differing_fields([one.scenario for one in brief.options]) if brief.options else ()


def frontier(brief: Brief) -> Sheet:
    """Throughput against interactivity over the batch."""
    points = brief.frontier.points if brief.frontier else ()
    per = (brief.frontier.per if brief.frontier else "GPU").casefold()
    rows = tuple(
        (p.batch, p.tokens_per_s_user, p.tokens_per_s_per_gpu, p.ttft_s, p.usd_per_million_output_tokens,
         p.meets_targets, p.chosen)
        for p in points
    )  # fmt: skip
    head = ("batch", "tokens_per_s_user", f"tokens_per_s_per_{per}", "ttft_s", "usd_per_million_output_tokens",
            "meets targets", "chosen")  # fmt: skip
    return Sheet("Frontier", head, rows)


def assumptions(brief: Brief) -> Sheet:
    """What the answer rests on: value, range, source, date, kind; edited ones marked."""
    rows = tuple(
        (a.label, a.path, a.value, a.unit, a.low, a.high, a.source, a.date, a.kind, "edited" if a.edited else "",
         *(a.moves_tpot or (None, None)), *(a.moves_cost or (None, None)))
        for a in brief.assumptions
    )  # fmt: skip
    head = ("assumption", "path", "value", "unit", "low", "high", "source", "date", "kind", "edited",
            "moves TPOT at low", "moves TPOT at high", "moves cost at low", "moves cost at high")  # fmt: skip
    return Sheet("Assumptions", head, rows)


def inputs(brief: Brief) -> Sheet:
    """Every field of the scenario, and what names the brief."""
    about: list[tuple[Cell, ...]] = [
        ("title", "Title", brief.title, "", ""),
        ("author", "Author", brief.author, "", ""),
        ("version", "Version", brief.version, "", ""),
        ("made_on", "Made on", brief.made_on, "", ""),
        ("link", "Link", brief.link or "", "", ""),
        ("command", "Command that reproduces it", brief.command, "", ""),
        ("engine_version", "Engine", brief.engine_version, "", ""),
        ("catalog_digest", "Catalog", brief.catalog_digest, "", ""),
        ("scenario_hash", "Scenario", brief.scenario_hash, "", ""),
        ("ranges", "What the ranges are", sureness_words(brief), "", ""),
    ]
    rows = [(i.path, i.label, i.value, i.unit, "changed" if i.changed else "") for i in brief.inputs]
    return Sheet("Inputs", ("path", "input", "value", "unit", "changed"), (*about, *rows))


def sureness_words(brief: Brief) -> str:
    """What the ranges of this brief are."""
    return " ".join(filter(None, [brief.interval_kind, brief.outlook])) or sureness.UNKNOWN


def sheets(brief: Brief) -> tuple[Sheet, ...]:
    """All tables but the economics, which a spreadsheet computes itself."""
    return inputs(brief), results(brief), options(brief), option_inputs(brief), frontier(brief), assumptions(brief)
