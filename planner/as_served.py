"""What the clients of a plan would measure at its concurrency: the closed loop of its batch, played against its passes.

``headline`` states one prompt and the decode step, each alone. A load generator measures both while other prompts come:
that is this record. The loop is :mod:`planner.closed_loop`; docs/silicon.md holds it against 815 served runs of models
with all experts in HBM. For other policies the same loop takes their passes, and nothing was measured.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.closed_loop import REQUESTS_EACH, Clients, PassTimes, Served, pass_times, serve_with
from planner.evaluate import Evaluation
from planner.parallel import Layout
from planner.result import ServedReport

SHORTEST = 0.8
"""Lengths are drawn from 80 to 100 % of the largest, as InferenceX draws them; their mean is what the plan states."""
MOST_CLIENTS = 8192
MOST_REQUESTS = 20_000
LEAST_EACH = 2


@dataclass(frozen=True)
class Loop:
    """What the loop needs of a plan that fits: small, so that it can be kept."""

    times: PassTimes
    layout: Layout
    prompt_tokens: int
    output_tokens: int
    mixed: bool

    @classmethod
    def of(cls, found: Evaluation) -> Loop:
        assert found.ready is not None
        engine = found.ctx.scenario.policy.engine or ""
        return cls(
            times=pass_times(found),
            layout=found.ready.layout,
            prompt_tokens=found.ctx.new_prompt_tokens,
            output_tokens=found.ctx.scenario.workload.output_tokens,
            mixed=not engine.startswith("sglang"),  # its scheduler lets running requests wait for a prompt
        )

    def played(self, clients: int, slots: int | None = None) -> Served:
        """The loop of ``clients``, of whom at most ``slots`` are in service at once (None: all)."""
        largest = 2.0 / (1.0 + SHORTEST)
        asked = Clients(
            count=clients,
            prompt_tokens=max(round(self.prompt_tokens * largest), 1),
            output_tokens=max(round(self.output_tokens * largest), 1),
            shortest=SHORTEST,
            requests_each=requests_each(clients),
            slots=slots,
            mixed=self.mixed,
        )
        return serve_with(self.times, self.layout, asked)


def requests_each(clients: int) -> int:
    """Ten requests of each client, fewer where there are thousands of clients."""
    return max(min(REQUESTS_EACH, MOST_REQUESTS // clients), LEAST_EACH)


def served_report(found: Evaluation) -> ServedReport | None:
    """TTFT and TPOT as its clients see them; None where a plan does not fit or has more clients than are played."""
    w = found.ctx.scenario.workload
    if found.serving is None or w.batch > MOST_CLIENTS:
        return None
    served = Loop.of(found).played(w.batch)
    return ServedReport(
        clients=w.batch,
        requests=w.batch * requests_each(w.batch),
        ttft_s=served.ttft_s,
        ttft_median_s=served.ttft_median_s,
        ttft_p99_s=served.ttft_p99_s,
        tpot_s=served.tpot_s if w.output_tokens > 1 else None,
        running=served.running,
        measured=found.policy.id == "all-gpu",
    )
