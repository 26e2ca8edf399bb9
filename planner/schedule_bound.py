"""Proof that no schedule of one row can finish within T seconds: prices over exact knapsacks, with rounding cuts.

Write the load of resource r under schedule x as ``load_r(x)``: GPU, CPU, host channels, and each DIMM (its own work,
reads of the experts that live there, its share of all striped reads, and the base load). x finishes within T if and
only if every load is at most T. Three relaxations follow one another; each only adds schedules, so what is impossible
for the last is impossible.

1. **Windows.** In a schedule that ends within T no expert uses an option that alone, on top of the base load, exceeds
   T. Striped reads take at least ``s`` on every DIMM, the sum over striped experts of the least that each must read, so
   the experts that live on a DIMM share ``T - base - s`` of it. One that runs elsewhere costs its DIMM at least the
   smaller of its two reads. Both are exact where GPU and CPU read the same.
2. **Prices.** GPU, CPU and host channels get prices ``p >= 0`` that add up to 1. If x finishes within T then ``sum_r
   p_r load_r(x) / T <= 1``. So if the least of that sum over all x that respect the DIMMs is above 1, no x finishes
   within T. The sum falls apart: a striped expert takes the cheaper of GPU and CPU, and each DIMM keeps the set of
   experts that saves most price and fits: a 0/1 knapsack, solved exactly or, rarely, relaxed
   (:mod:`planner.schedule_knapsack`).
3. **Rounding cuts.** No half expert is computed on the GPU, though prices alone allow it. For domain k with ``sum_e t_e
   x_e <= R`` (R = T - base), any unit u > 0 and any set S of experts written as ``1 - x_e``, mixed-integer rounding
   gives a valid inequality ``sum_e c_e x_e + c_0 <= 0`` (Marchand and Wolsey, Operations Research 49, 2001;
   :func:`rounding_cut`). Every schedule that ends within T meets it, so it is priced like a resource of load
   ``1 + (sum_e c_e x_e + c_0) u / T <= 1``.

The prices come from Kelley's cutting planes (1960): every relaxed schedule found is one row of a matrix game between
prices and schedules, and the solution of the game is the next price. A proof needs the last prices only; nothing in the
search for them can make it wrong. Rounding: a proof is accepted above ``1 + 1e-9``, while sums of 256 terms of order 1
carry 1e-13, and cuts that would magnify that more than a thousandfold are not used.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from planner.schedule_knapsack import FIT, HOME, knapsack, working_room

COLUMNS = 96
"""Relaxed schedules that one row keeps."""
CUTS = 8
"""Rounding cuts that one row keeps."""
PROOF = 1.0 + 1e-9
NEVER = 1e3
"""Stands for an infinite price, as a share of T; any number above 1 is a lower bound of it."""
UNITS = 6
"""Different units that a search for a cut tries per domain, each whole, halved and in three."""
STEPS = 200
"""Simplex steps at most; about ten are needed, and prices that are not optimal are still prices."""
WORTH = 1e-5
"""Least violation of a cut, as a share of T."""


@njit(nogil=True, cache=True)
def allowed(horizon, seconds, host, dimm, home, base, k, e):  # type: ignore[no-untyped-def]
    """Whether expert e on the GPU (k = 0) or CPU (1) alone, on top of the base load, ends within the horizon."""
    limit = horizon * FIT
    place = 3 + home[e] if home[e] >= 0 else 3
    return base[k] + seconds[k, e] <= limit and base[2] + host[k, e] <= limit and base[place] + dimm[k, e] <= limit


@njit(nogil=True, cache=True)
def rounding_cut(horizon, seconds, host, dimm, home, base, k, unit, inside, cut):  # type: ignore[no-untyped-def]
    """Mixed-integer rounding of ``sum_e seconds[k, e] x_e <= horizon - base[k]`` with a unit and a set S = inside.

    With a_e = seconds[k, e] / unit, b = (horizon - base[k]) / unit - (sum of a_e over S), f the fraction of b and
    phi(a) = floor(a) + max(0, frac(a) - f) / (1 - f), it is ``sum outside S phi(a_e) x_e + sum over S phi(-a_e) (1 -
    x_e) <= floor(b)``. phi is continuous, so rounding of a_e does no harm. Writes the coefficients of x into cut
    [experts], in units of the horizon, and returns the constant; inf where 1 - f is too small to divide by.
    """
    left = horizon - base[k]
    for e in range(inside.shape[0]):
        cut[e] = 0.0
        if inside[e] and allowed(horizon, seconds, host, dimm, home, base, k, e):
            left -= seconds[k, e]
    whole = np.floor(left / unit + 1e-9)
    fraction = max(left / unit - whole, 0.0)
    if fraction > 0.999:
        return np.inf
    zero = -whole
    for e in range(inside.shape[0]):
        if allowed(horizon, seconds, host, dimm, home, base, k, e):
            size = -seconds[k, e] / unit if inside[e] else seconds[k, e] / unit
            below = np.floor(size)
            rounded = below + max(0.0, size - below - fraction) / (1.0 - fraction)
            if inside[e]:
                zero += rounded
                rounded = -rounded
            cut[e] = rounded * unit / horizon
    return zero * unit / horizon


@njit(nogil=True, cache=True)
def relaxed(  # type: ignore[no-untyped-def]
    horizon, prices, seconds, host, dimm, home, base, cuts, cut_domain, cut, cut_zero, tables, keep, away
):
    """Least priced load of a schedule that respects the DIMMs within horizon, in units of the horizon.

    prices: of GPU, CPU, host channels and so many cuts. cut_domain [cuts], cut [cuts, experts], cut_zero [cuts]:
    domain, coefficients and constant of each cut. tables: see :func:`planner.schedule_knapsack.prepare`. Writes the
    schedule: keep [experts] (share kept on the DIMM) and away [experts] (0 GPU, 1 CPU, where the rest runs). Infinite
    if the DIMMs alone overflow.
    """
    striped, fixed, free, state, item, count = tables
    total = (prices[0] * base[0] + prices[1] * base[1] + prices[2] * base[2]) / horizon
    for c in range(cuts):
        total += prices[3 + c] * (1.0 + cut_zero[c])
    price = np.empty(home.shape[0])
    for e in range(home.shape[0]):
        price[e], away[e] = NEVER, 0 if seconds[0, e] < np.inf else 1
        for k in range(2):
            if allowed(horizon, seconds, host, dimm, home, base, k, e):
                asked = (prices[k] * seconds[k, e] + prices[2] * host[k, e]) / horizon
                for c in range(cuts):
                    if cut_domain[c] == k:
                        asked += prices[3 + c] * cut[c, e]
                if asked < price[e]:
                    price[e], away[e] = asked, k
        keep[e] = 1.0 if state[e] == HOME else 0.0
        if state[e] != HOME:
            total += price[e]
    weight, value, node, parent, taken = working_room(item.shape[1])
    for d in range(fixed.shape[0]):
        room = horizon * FIT - base[3 + d] - striped - fixed[d]
        if room < 0.0:
            return np.inf
        total -= knapsack(room, item[d], count[d], price, free, keep, weight, value, node, parent, taken)
    return total


@njit(nogil=True, cache=True)
def _pivot(tableau, basis, enter):  # type: ignore[no-untyped-def]
    """One step of the simplex method; of equal rows the one with the largest pivot. False if no row limits it."""
    last = tableau.shape[1] - 1
    leave, ratio = -1, np.inf
    for r in range(basis.shape[0]):
        if tableau[r, enter] > 1e-9:
            found = tableau[r, last] / tableau[r, enter]
            if found < ratio - 1e-12 or (found <= ratio + 1e-12 and tableau[r, enter] > tableau[leave, enter]):
                leave, ratio = r, found
    if leave < 0:
        return False
    by = tableau[leave, enter]
    for j in range(last + 1):
        tableau[leave, j] /= by
    for r in range(basis.shape[0] + 1):
        by = tableau[r, enter]
        if r != leave and by != 0.0:
            for j in range(last + 1):
                tableau[r, j] -= by * tableau[leave, j]
    basis[leave] = enter
    return True


@njit(nogil=True, cache=True)
def game(table, rows, resources, prices, weights):  # type: ignore[no-untyped-def]
    """Optimal prices against the rows of a table, and weights of the rows; returns the value.

    The value is ``max over prices >= 0 with sum 1 of min over rows of table[:rows, :resources] @ prices``. Simplex
    method on the equivalent linear programme (all entries lifted above zero); the steepest column enters. Writes
    prices [resources] and weights [rows].
    """
    lift = 0.0
    for j in range(rows):
        for r in range(resources):
            lift = max(lift, 1.0 - table[j, r])
    last = rows + resources
    tableau = np.zeros((resources + 1, last + 1))
    basis = np.empty(resources, np.int64)
    for j in range(rows):
        tableau[resources, j] = -1.0
        weights[j] = 0.0
    for r in range(resources):
        for j in range(rows):
            tableau[r, j] = table[j, r] + lift
        tableau[r, rows + r] = 1.0
        tableau[r, last] = 1.0
        basis[r] = rows + r
    for _ in range(STEPS):
        enter, least = -1, -1e-11
        for j in range(last):
            if tableau[resources, j] < least:
                enter, least = j, tableau[resources, j]
        if enter < 0 or not _pivot(tableau, basis, enter):
            break
    total = 0.0
    for r in range(resources):
        prices[r] = max(tableau[resources, rows + r], 0.0)
        total += prices[r]
    for r in range(resources):
        prices[r] /= total
        if basis[r] < rows:
            weights[basis[r]] = tableau[r, last] / total
    return 1.0 / total - lift
