"""An even load, for what a policy decides before any routing is known: how many experts a pass hits on average."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.context import Context


def even_counts(ctx: Context, tokens: int) -> NDArray[np.int32]:
    """Tokens per expert of one pass of ``tokens`` tokens, int32 [1, 1, experts]: the same in every layer.

    As many experts are hit as a uniform router hits in the mean, E (1 - (1 - k/E)^tokens), rounded, and they share the
    tokens x k pairs evenly.
    """
    experts, pairs = ctx.experts, tokens * ctx.top_k
    mean = experts * -np.expm1(tokens * np.log1p(-ctx.top_k / experts)) if ctx.top_k < experts else float(experts)
    hit = int(min(max(round(mean), ctx.top_k), experts, pairs))
    each, more = divmod(pairs, hit)
    row = np.zeros(experts, np.int32)
    row[:hit] = each
    row[:more] += 1
    return row[None, None]
