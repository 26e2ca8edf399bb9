"""The table: who answered, how far off, how fast, and why not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from validation.silicon.fit import Sample


@dataclass(frozen=True)
class Column:
    """Answers of one estimator by question id, with the reasons for missing ones."""

    name: str
    answers: Mapping[str, Mapping[str, Any]]
    reason: str = ""
    start_s: float = 0.0

    def errors(self, measured: Mapping[str, Sample], quantity: str) -> dict[str, float]:
        """predicted / measured - 1 by id, of what was answered."""
        return {
            ident: float(a[quantity]) / getattr(measured[ident], quantity) - 1.0
            for ident, a in self.answers.items()
            if ident in measured and a.get(quantity)
        }


def _quantiles(values: Sequence[float]) -> str:
    if not values:
        return ""
    size = np.abs(values)
    return f"{np.median(size) * 100:.1f} / {np.quantile(size, 0.9) * 100:.1f}"


def table(measured: Mapping[str, Sample], columns: Sequence[Column]) -> str:
    """Markdown: one line per estimator, then each on the questions that it and ours answered, then reasons."""
    ours = columns[0]
    lines = [
        f"{len(measured)} served runs; errors are |predicted / measured - 1| in percent, median / p90.",
        "",
        "| estimator | answered | TPOT | TTFT | ours on the same: TPOT | TTFT | s per estimate | s to start |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for column in columns:
        tpot, ttft = column.errors(measured, "tpot_s"), column.errors(measured, "ttft_s")
        same = [
            {k: v for k, v in ours.errors(measured, q).items() if k in found}
            for q, found in (("tpot_s", tpot), ("ttft_s", ttft))
        ]
        times = [float(a["seconds"]) for a in column.answers.values() if a.get("seconds") is not None]
        beside = [_quantiles(list(s.values())) if column is not ours else "" for s in same]
        lines.append(
            f"| {column.name} | {len(tpot)} | {_quantiles(list(tpot.values()))} | {_quantiles(list(ttft.values()))} | "
            f"{beside[0]} | {beside[1]} | {f'{np.median(times):.3f}' if times else ''} | "
            f"{f'{column.start_s:.1f}' if times else ''} |"
        )
    lines += ["", "| estimator | not answered, because | runs |", "|---|---|---|"]
    for column in columns:
        reasons = Counter(str(a["reason"]) for i, a in column.answers.items() if i in measured and a.get("reason"))
        unheard = len(measured) - sum(i in column.answers for i in measured)
        if unheard:
            reasons[column.reason or "no answer"] += unheard
        lines += [f"| {column.name} | {_cell(reason)} | {count} |" for reason, count in reasons.most_common()]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "/").split())


def as_rows(measured: Mapping[str, Sample], columns: Sequence[Column]) -> list[dict[str, Any]]:
    """One record per run and estimator: inputs and the errors, no measured value."""
    found = []
    for ident, sample in measured.items():
        case = sample.case
        for column in columns:
            answer = column.answers.get(ident, {})
            found.append(
                {
                    "model": case.row.model,
                    "engine": case.engine,
                    "system": case.row.system,
                    "gpus": case.layout.gpus,
                    "clients": case.clients.count,
                    "prompt_tokens": case.row.prompt_tokens,
                    "output_tokens": case.row.output_tokens,
                    "estimator": column.name,
                    "tpot_error": column.errors({ident: sample}, "tpot_s").get(ident),
                    "ttft_error": column.errors({ident: sample}, "ttft_s").get(ident),
                    "seconds": answer.get("seconds"),
                    "reason": answer.get("reason"),
                }
            )
    return found
