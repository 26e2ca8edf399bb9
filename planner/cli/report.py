"""A plan as text: the verdict first, then the figures with units and ranges, where time and memory go, the cost."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import wrap

from planner.cli.output import columns, spaced
from planner.result import AccuracyReport, Assumption, Cost, Headline, Memory, Result, Step
from planner.words import names, outlook, served, sureness, verdict
from planner.words.findings import drafted_words, ordered
from planner.words.formats import (
    PREFIXES,
    count,
    dollars,
    gigabytes,
    plain_range,
    range_text,
    seconds,
    seconds_unit,
    share,
    shorten,
    significant,
    trimmed,
)

_WIDTH = 100
_MOST_ASSUMPTIONS = 12


def report(result: Result) -> str:
    """The text of ``plan`` without ``--json``; plain spaces, at most about 100 columns."""
    blocks = [_opening(result)]
    if result.headline.fits:
        told = served.sentence(result)
        blocks.append(_headline(result.headline, sureness.interval_title(result)) + (_paragraph(told) if told else ""))
        if result.accuracy is not None:
            blocks.append(_sureness(result.accuracy))
    if result.decode is not None:
        blocks.append(_step(result.decode))
    if result.memory is not None:
        blocks.append(_memory(result.memory))
    if result.cost is not None:
        blocks.append(_cost(result.cost))
    if result.assumptions:
        blocks.append(_assumptions(result.assumptions))
    if result.warnings:
        blocks.append("Notes\n" + "".join(_paragraph(f"- {note}", "  ") for note in result.warnings))
    blocks.append(f"Scenario {result.scenario_hash[:12]}, engine {result.engine_version}.\n")
    return spaced("\n".join(blocks))


def _opening(result: Result) -> str:
    text = _paragraph(verdict(result))
    if not result.headline.fits:
        # The verdict leads with the first reason or the tightest tier; every other stands here in full.
        for reason in result.headline.reasons:
            said = reason.rstrip(".").casefold() in " ".join(text.split()).casefold()
            text += "" if said else _paragraph(f"- {reason}", "  ")
        changes = [change for change in (result.memory.changes if result.memory else ()) if change.fits]
        text += "".join(_paragraph(f"- Would fit: {change.text}", "  ") for change in changes)
    text += _paragraph(f"Estimate. {sureness.outlook(result)}" if result.headline.fits else outlook(result))
    load = result.scenario.workload
    text += "\n" + columns(
        [
            ("Model", f"{result.model.name}: {result.model.sentence}"),
            ("System", f"{result.system.name}: {result.system.sentence}"),
            ("Policy", f"{result.policy.name}: {result.policy.sentence}"),
            (
                "Load",
                f"batch {count(load.batch)}, {count(load.prompt_tokens)} prompt tokens, "
                f"{count(load.output_tokens)} output tokens",
            ),
        ]
    )
    return text


def _headline(head: Headline, ranges: str) -> str:
    rows: list[tuple[str, str, str]] = []

    def row(label: str, key: str, show: Callable[[float], str], scale: Callable[[float], float] | None = None) -> None:
        value = getattr(head, key)
        if value is None:
            rows.append((label, "not known", ""))
            return
        interval = (head.intervals or {}).get(key)
        factor = scale(value) if scale else 1.0
        between = range_text(interval[0] * factor, interval[1] * factor, value * factor) if interval else ""
        rows.append((label, show(value), between))

    def rate(unit: str) -> Callable[[float], str]:
        return lambda value: f"{significant(value)} {unit}"

    def time_factor(value: float) -> float:
        return seconds_unit(value)[0]

    row("time to first token", "ttft_s", lambda value: str(seconds(value)), time_factor)
    row("time per output token", "tpot_s", lambda value: str(seconds(value)), time_factor)
    row("per user, decode", "tokens_per_s_user", rate("output tok/s"))
    row("per system, decode", "tokens_per_s_system", rate("output tok/s"))
    row("per system, end to end", "tokens_per_s_end_to_end", rate("output tok/s"))
    row("prefill, per system", "prefill_tokens_per_s", rate("prompt tok/s"))
    row("energy at the wall", "energy_j_per_output_token", rate("J per output token"))
    row("output tokens", "usd_per_million_output_tokens", lambda value: f"{dollars(value)} per million")
    row("input tokens", "usd_per_million_input_tokens", lambda value: f"{dollars(value)} per million")
    row("cost of the load", "usd_per_month", lambda value: f"{dollars(value)} per month")
    row("systems needed", "systems_needed", count)
    rows.append(("bound by", names.bound(head.bound_by) if head.bound_by else "not known", ""))
    return columns(rows, ("Headline", "estimate", ranges))


def _sureness(report: AccuracyReport) -> str:
    """What the intervals rest on, the nearest measured run, and the measurement that would narrow them most."""
    lines = [sureness.finding(report)]
    if report.regime is not None:
        lines += [sureness.range_sentence(report), sureness.neighbours_sentence(report)]
    if report.next_measurements:
        lines.append(f"Measure next: {sureness.next_sentence(report.next_measurements[0])}.")
    return "How sure is this\n" + "".join(_paragraph(f"- {line}", "  ") for line in lines)


def _step(step: Step) -> str:
    error = f" ± {significant(step.standard_error_s / step.total_s * 100, 2)} %" if step.total_s > 0 else ""
    title = (
        f"A decode step: {seconds(step.total_s)}{error} (standard error of {count(step.samples)} sampled steps), "
        f"P99 {seconds(step.p99_s)}\n"
    )
    drafted = drafted_words(step)
    title += f"{drafted}\n" if drafted else ""
    rows = [
        (
            names.part(part.part),
            names.lane(part.lane),
            str(seconds(part.busy_s)),
            str(seconds(part.exposed_s)),
            share(part.exposed_s / step.total_s) if step.total_s > 0 else "",
        )
        for part in step.parts
        if part.busy_s > 0 or part.exposed_s > 0
    ]
    return title + columns(rows, ("part", "runs on", "busy", "exposed", "of the step"), numbers=(2, 3, 4))


def _memory(memory: Memory) -> str:
    rows = []
    for tier in memory.tiers:
        items = sorted((item for item in tier.items if item.bytes > 0), key=lambda item: -item.bytes)
        largest = ", ".join(f"{item.name} {gigabytes(item.bytes)}" for item in items[:3])
        rows.append(
            (
                tier.name,
                gigabytes(tier.used_bytes),
                gigabytes(tier.capacity_bytes),
                gigabytes(tier.free_bytes),
                largest,
            )
        )
    text = columns(rows, ("Memory", "used", "capacity", "free", "most of it"), numbers=(1, 2, 3))
    if memory.first_unfit:
        text += _paragraph(f"First that does not fit: {memory.first_unfit}")
    return text + _paragraph(
        f"Largest batch at this context: {count(memory.largest_batch)}; largest context at this batch: "
        f"{count(memory.largest_context_tokens)} tokens."
    )


def _cost(cost: Cost) -> str:
    rows = [(part.name, dollars(part.value)) for part in cost.by_part]
    rows.append(("total", dollars(cost.usd_per_million_output_tokens)))
    text = columns(rows, (f"Cost ({cost.mode})", "per million output tokens"), numbers=(1,))
    capex = f"{dollars(cost.capex_usd)} to buy, " if cost.capex_usd is not None else ""
    return text + _paragraph(
        f"One system: {capex}{dollars(cost.usd_per_hour)} per hour, {dollars(cost.usd_per_month_one_system)} per month."
    )


def _assumptions(assumptions: tuple[Assumption, ...]) -> str:
    kept = ordered(assumptions)[:_MOST_ASSUMPTIONS]
    rows = [
        (
            shorten(item.label, 44) + (" (edited)" if item.edited else ""),
            *_figure(item),
            f"{item.kind}: {shorten(item.source, 40)}",
        )
        for item in kept
    ]
    text = columns(rows, ("What this rests on", "value", "range", "source"))
    more = len(assumptions) - len(kept)
    return text + (f"{count(more)} more in --json.\n" if more else "")


def _figure(item: Assumption) -> tuple[str, str]:
    """Value with unit, and range, both with the same prefix: ``17.2 GB`` and ``8.59 - 68.7``."""
    if isinstance(item.value, str):
        return item.value, ""
    factor, prefix = next(((f, p) for f, p in PREFIXES if abs(item.value) >= f >= 1e6), (1.0, ""))
    unit = f"{prefix}{item.unit.replace('bytes', 'B', 1)}" if prefix else item.unit
    ends = [None if end is None else end / factor for end in (item.low, item.high)]
    shown = significant if prefix else trimmed
    return f"{shown(item.value / factor)} {unit}".rstrip(), plain_range(*ends)


def _paragraph(text: str, indent: str = "") -> str:
    lines = wrap(spaced(text), _WIDTH, initial_indent=indent, subsequent_indent=indent)
    return "".join(f"{line}\n" for line in lines)
