"""Local search for one row of the three-domain schedule: moves and exchanges under a smooth makespan.

The makespan itself is a poor guide: with one of sixteen nearly equal DIMMs at the top, almost no single move lowers
it. The search lowers ``sum over resources of (load / longest load) ** p`` instead, p = 4, 8, ... 64 in turn, first by
moves of one expert, then by exchanges: an expert leaves the fullest resource and another leaves the place that it goes
to. p-norms as a surrogate of the maximum load: Alon, Azar, Woeginger, Yadid, Journal of Scheduling 1 (1998).
"""

from __future__ import annotations

import numpy as np
from numba import njit

FIRST_POWER, LAST_POWER = 2, 6
"""p is 2 to these powers."""
EPSILON = 1e-12
"""A step must lower the sum of powers (about 1 per full resource) by more than rounding."""
PASSES = 40
"""Longest search by single moves for each p, in sweeps over the experts."""


@njit(nogil=True, cache=True)
def power(x, doublings):  # type: ignore[no-untyped-def]
    for _ in range(doublings):
        x *= x
    return x


@njit(nogil=True, cache=True)
def fill_loads(seconds, host, dimm, home, base, domain, load):  # type: ignore[no-untyped-def]
    """Seconds of GPU, CPU, host channels and each DIMM, written into load [3 + dimms]; returns the longest."""
    striped = 0.0
    for i in range(base.shape[0]):
        load[i] = base[i]
    for e in range(domain.shape[0]):
        k = domain[e]
        if k == 2:
            load[3 + home[e]] += seconds[2, e]
            continue
        load[k] += seconds[k, e]
        load[2] += host[k, e]
        if home[e] >= 0:
            load[3 + home[e]] += dimm[k, e]
        else:
            striped += dimm[k, e]
    longest = max(load[0], load[1], load[2])
    for i in range(3, base.shape[0]):
        load[i] += striped
        longest = max(longest, load[i])
    return longest


@njit(nogil=True, cache=True)
def _change(seconds, host, dimm, e, here, there, change):  # type: ignore[no-untyped-def]
    """What a move adds to GPU, CPU, host channels, and the home DIMM (every DIMM if striped): change [4]."""
    for i in range(4):
        change[i] = 0.0
    if here == 2:
        change[3] -= seconds[2, e]
    else:
        change[here] -= seconds[here, e]
        change[2] -= host[here, e]
        change[3] -= dimm[here, e]
    if there == 2:
        change[3] += seconds[2, e]
    else:
        change[there] += seconds[there, e]
        change[2] += host[there, e]
        change[3] += dimm[there, e]


@njit(nogil=True, cache=True)
def _gain(load, powers, place, change, scale, doublings):  # type: ignore[no-untyped-def]
    """Change of the sum of powers."""
    total = 0.0
    for i in range(3):
        if change[i] != 0.0:
            total += power((load[i] + change[i]) * scale, doublings) - powers[i]
    if change[3] != 0.0:
        first, end = (3 + place, 4 + place) if place >= 0 else (3, load.shape[0])
        for i in range(first, end):
            total += power((load[i] + change[3]) * scale, doublings) - powers[i]
    return total


@njit(nogil=True, cache=True)
def _apply(load, powers, place, change, scale, doublings):  # type: ignore[no-untyped-def]
    for i in range(3):
        if change[i] != 0.0:
            load[i] += change[i]
            powers[i] = power(load[i] * scale, doublings)
    if change[3] != 0.0:
        first, end = (3 + place, 4 + place) if place >= 0 else (3, load.shape[0])
        for i in range(first, end):
            load[i] += change[3]
            powers[i] = power(load[i] * scale, doublings)


@njit(nogil=True, cache=True)
def _moves(seconds, host, dimm, home, domain, load, powers, scale, doublings, places):  # type: ignore[no-untyped-def]
    """Sweeps over the experts; each goes to its best other domain if that lowers the sum."""
    experts = domain.shape[0]
    change = np.empty(4)
    quiet = e = 0
    for _ in range(PASSES * experts):
        best, target = -EPSILON, -1
        for there in range(places if domain[e] < places else 0):
            if there != domain[e] and seconds[there, e] < np.inf:
                _change(seconds, host, dimm, e, domain[e], there, change)
                value = _gain(load, powers, home[e], change, scale, doublings)
                if value < best:
                    best, target = value, there
        quiet += 1
        if target >= 0:
            _change(seconds, host, dimm, e, domain[e], target, change)
            _apply(load, powers, home[e], change, scale, doublings)
            domain[e] = target
            quiet = 0
        if quiet >= experts:
            break
        e = e + 1 if e + 1 < experts else 0


@njit(nogil=True, cache=True)
def _exchange(  # type: ignore[no-untyped-def]
    seconds, host, dimm, home, domain, load, powers, scale, doublings, places, trials
):
    """The first expert of the fullest resource, with its best partner, whose exchange lowers the sum.

    Returns pairs left to try; negative (minus one, minus what is left) if an exchange was made.
    """
    experts = domain.shape[0]
    change, other = np.empty(4), np.empty(4)
    fullest = 0
    for i in range(load.shape[0]):
        if load[i] > load[fullest]:
            fullest = i
    for e in range(experts):
        here = domain[e]
        if fullest < 2 and here != fullest:
            continue
        if fullest == 2 and (here == 2 or host[here, e] == 0.0):
            continue
        if fullest >= 3 and home[e] != fullest - 3:
            continue
        for there in range(places if here < places else 0):
            if there == here or seconds[there, e] == np.inf:
                continue
            _change(seconds, host, dimm, e, here, there, change)
            best = -EPSILON - _gain(load, powers, home[e], change, scale, doublings)
            _apply(load, powers, home[e], change, scale, doublings)
            partner, target = -1, -1
            for f in range(experts):
                if f == e or domain[f] != there or (there == 2 and home[f] != home[e]):
                    continue
                for goal in range(places):
                    if goal == there or seconds[goal, f] == np.inf:
                        continue
                    trials -= 1
                    _change(seconds, host, dimm, f, there, goal, other)
                    value = _gain(load, powers, home[f], other, scale, doublings)
                    if value < best:
                        best, partner, target = value, f, goal
            if partner >= 0:
                _change(seconds, host, dimm, partner, there, target, other)
                _apply(load, powers, home[partner], other, scale, doublings)
                domain[e], domain[partner] = there, target
                return -1 - max(trials, 0)
            _change(seconds, host, dimm, e, there, here, change)
            _apply(load, powers, home[e], change, scale, doublings)
            if trials <= 0:
                return 0
    return trials


@njit(nogil=True, cache=True)
def search(seconds, host, dimm, home, base, domain, enough, places, trials):  # type: ignore[no-untyped-def]
    """Improve domain [experts] in place; returns its makespan (never longer than before) and what is left of trials.

    seconds: [3, experts] on GPU, CPU, NDP, inf where impossible. host, dimm: [2, experts], seconds of the host channels
    and of the home DIMM (of every DIMM if striped) if the expert runs on the GPU or the CPU. home: int64 [experts], -1
    striped. base: [3 + dimms] loads of GPU, CPU, host channels and DIMMs before any expert. The search ends as soon as
    the makespan is at most ``enough``. places: 3, or 2 to move experts between GPU and CPU only. trials: pairs that
    exchanges may try.
    """
    load, powers = np.empty(base.shape[0]), np.empty(base.shape[0])
    best = np.empty_like(domain)
    for e in range(domain.shape[0]):
        best[e] = domain[e]
    longest = fill_loads(seconds, host, dimm, home, base, domain, load)
    doublings = FIRST_POWER
    while longest > enough and longest > 0.0:
        scale = 1.0 / fill_loads(seconds, host, dimm, home, base, domain, load)
        for i in range(load.shape[0]):
            powers[i] = power(load[i] * scale, doublings)
        _moves(seconds, host, dimm, home, domain, load, powers, scale, doublings, places)
        if doublings < LAST_POWER:
            doublings += 1
            ended = False
        elif trials <= 0:
            ended = True
        else:
            trials = _exchange(seconds, host, dimm, home, domain, load, powers, scale, doublings, places, trials)
            ended = trials >= 0
            if not ended:
                trials = -1 - trials
        now = fill_loads(seconds, host, dimm, home, base, domain, load)
        if now < longest:
            longest = now
            for e in range(domain.shape[0]):
                best[e] = domain[e]
        if ended:
            break
    for e in range(domain.shape[0]):
        domain[e] = best[e]
    return longest, max(trials, 0)


@njit(nogil=True, cache=True)
def whole(seconds, host, home, order, keep, away, weights, domain):  # type: ignore[no-untyped-def]
    """A whole schedule near a mixture of relaxed ones, written into domain [experts].

    order [experts]: DIMM after DIMM, then the striped experts. keep, away: [mixed, experts] as in
    :class:`planner.schedule_prove.Pool`, weights [mixed], sum 1. DIMM after DIMM takes its experts' places from one of
    the mixed schedules, so that it stays within its room: the one that brings GPU, CPU and host loads so far closest to
    those of the mixture (error diffusion). Then every striped expert does.
    """
    experts, mixed = home.shape[0], weights.shape[0]
    error, mean, part = np.zeros(3), np.empty(3), np.empty((mixed, 3))
    begin = 0
    while begin < experts:
        place = home[order[begin]]
        end = begin + 1
        while place >= 0 and end < experts and home[order[end]] == place:
            end += 1
        for r in range(3):
            mean[r] = 0.0
        for i in range(mixed):
            for r in range(3):
                part[i, r] = 0.0
            for j in range(begin, end):
                e = order[j]
                k = away[i, e]
                if keep[i, e] < 1.0:
                    part[i, k] += seconds[k, e]
                    part[i, 2] += host[k, e]
                    mean[k] += weights[i] * (1.0 - keep[i, e]) * seconds[k, e]
                    mean[2] += weights[i] * (1.0 - keep[i, e]) * host[k, e]
        best, least = 0, np.inf
        for i in range(mixed):
            distance = 0.0
            for r in range(3):
                off = error[r] + part[i, r] - mean[r]
                distance += off * off
            if distance < least:
                best, least = i, distance
        for r in range(3):
            error[r] += part[best, r] - mean[r]
        for j in range(begin, end):
            e = order[j]
            domain[e] = away[best, e] if keep[best, e] < 1.0 else 2
        begin = end
