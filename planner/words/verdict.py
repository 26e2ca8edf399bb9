"""The answer as one sentence that a person would say, from a Result alone."""

from __future__ import annotations

import re

from planner.result import Change, MemoryItem, MemoryTier, Result
from planner.words import names, sureness
from planner.words.formats import THIN, count, dollars, gigabytes, prefixed, uncapital


def verdict(result: Result) -> str:
    """Whether it fits; if so the figures that decide, if not what is short, why, and the smallest change that fits."""
    return _fits(result) if result.headline.fits else _does_not_fit(result)


def _fits(result: Result) -> str:
    head = result.headline
    figures = []
    if head.tokens_per_s_system is not None:
        figures.append(f"{prefixed(head.tokens_per_s_system, 'output tok/s')} per system")
    if head.tokens_per_s_user is not None:
        figures.append(f"{prefixed(head.tokens_per_s_user, 'tok/s')} per user")
    if head.bound_by is not None:
        figures.append(f"bound by {names.bound(head.bound_by)}")
    text = "Fits."
    if figures:
        text += " " + ", ".join(figures)
        if head.usd_per_million_output_tokens is not None:
            text += f"; {dollars(head.usd_per_million_output_tokens)} per million output tokens"
        text += "."
    return text


def _does_not_fit(result: Result) -> str:
    tier = tightest(result)
    if tier is None:
        # No ledger: the policy needs parts that this system does not have, or memory is not the reason.
        reason = result.headline.reasons[0] if result.headline.reasons else "the reason is not known"
        return f"Does not fit: {_end(uncapital(reason))}"
    text = f"Does not fit: {short_words(tier)}"
    largest = largest_item(tier)
    if largest is not None:
        verb = "take" if largest.name.endswith("s") else "takes"
        text += f", because the {_the(largest.name)} {verb} {gigabytes(largest.bytes)}"
    text += "."
    change = smallest_change(result)
    if change is not None:
        text += f" {change_sentence(change)}"
    return text


def tightest(result: Result) -> MemoryTier | None:
    """The tier that is furthest over its capacity; None when none is."""
    if result.memory is None:
        return None
    over = [tier for tier in result.memory.tiers if tier.free_bytes < 0]
    return min(over, key=lambda tier: tier.free_bytes / max(tier.capacity_bytes, 1.0), default=None)


def short_words(tier: MemoryTier) -> str:
    """``GPU HBM is 6.0 GB short``; with several devices the fullest of them is named."""
    missing = tier.fullest_device_bytes - tier.device_capacity_bytes
    name = names.plain_tier(tier.name)
    if tier.devices > 1:
        return f"{name} is {gigabytes(missing)} short on the fullest of {count(tier.devices)} devices"
    return f"{name} is {gigabytes(max(missing, -tier.free_bytes))} short"


def largest_item(tier: MemoryTier) -> MemoryItem | None:
    """What takes most of a tier."""
    return max(tier.items, key=lambda item: item.bytes, default=None)


def smallest_change(result: Result) -> Change | None:
    """The first change that makes the plan fit; the engine lists the smallest first."""
    if result.memory is None:
        return None
    return next((change for change in result.memory.changes if change.fits), None)


def change_name(change: Change) -> str:
    """A change without its full stop and with thin thousands: ``Batch 58 instead of 64``."""
    return re.sub(r"(?<=\d),(?=\d{3})", THIN, change.text.rstrip("."))


def change_sentence(change: Change) -> str:
    """``Batch 58 instead of 64 is the smallest change that fits.``; another machine or policy is named as such."""
    name = change_name(change)
    if name.endswith(" instead"):
        return f"It fits on {name.removesuffix(' instead')}."
    if name.startswith("Policy: "):
        return f"It fits under the policy {name.removeprefix('Policy: ')}."
    return f"{name} is the smallest change that fits."


def _the(name: str) -> str:
    return name if name[:2].isupper() else uncapital(name)


def _end(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else text + "."


def outlook(result: Result) -> str:
    """The small line under the verdict: what the figures are, and what they are not."""
    if not result.headline.fits:
        return "No time, energy or cost is given for a plan that does not fit. It can be saved and shared as it is."
    text = "Estimate."
    if result.headline.intervals:
        text += f" {sureness.outlook(result)} Bars run from half to twice the value."
    return text
