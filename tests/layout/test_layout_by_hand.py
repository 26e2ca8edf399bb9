"""Decisions and transfers of layouts with two or three DIMMs, computed by hand."""

import numpy as np
import pytest

from planner.layout.decide import confirmed, decide
from planner.layout.state import IDLE, LOCALISE, PREFETCH, REBALANCE, STRIPE, Sizes, State, begin
from planner.layout.tasks import Moved, Rates, empty_moved, run_tasks

MB, MS = 1e6, 1e-3
RATES = Rates(link=1e9, pcie=2e9, channel=0.5e9, channels=2, rank=2e9, host_read=4e9, chain=False)
NOTHING = np.zeros(1)


def sizes(experts: int, dimms: int = 2, slots: int = 0, room: float = np.inf) -> Sizes:
    return Sizes(np.full((1, experts), MB), MB, slots, room, dimms)


def layout(home: list[int], given: Sizes, resident: tuple[int, ...] = ()) -> State:
    return begin(np.isin(np.arange(len(home)), resident)[None], np.array([home]), given)


def costs(*rows: tuple[float, float, float]) -> np.ndarray:
    """Milliseconds of each expert from HBM, striped on the CPU, on a DIMM."""
    return np.array([rows]) * MS


def step(state: State, given: Sizes, free_ms: float, rates: Rates = RATES, charge: bool = False) -> Moved:
    moved = empty_moved(given, rates)
    free = np.full(2 * given.dimms + rates.channels + 1, free_ms * MS)
    run_tasks(state, given, rates, free, moved, charge)
    return moved


def test_a_striped_expert_that_its_dimm_computes_faster_is_localised_over_three_steps() -> None:
    """CPU 4 ms with expert 0, DIMM 0 2 ms with expert 1, DIMM 1 idle; expert 0 would take DIMM 1 for 1 ms.

    M = (4^8 + 2^8)^(1/8) ms before, (2^8 + 1^8)^(1/8) ms after. Half of its 1 MB crosses from DIMM 0 to DIMM 1 at
    1 GB/s: 0.5 ms, so 0.2 ms a step leave 0.3, then 0.1, then nothing.
    """
    given = sizes(2)
    state = layout([-1, 0], given)
    assert state.held.tolist() == [1.5 * MB, 0.5 * MB]
    cost = costs((9, 4, 1), (9, 9, 2))
    fresh = decide(state, given, np.ones((1, 2)), cost, NOTHING, 0.001)
    assert fresh.tolist() == [[LOCALISE, IDLE]]
    assert state.target[0, 0] == 1
    assert state.gain[0, 0] == pytest.approx(((4**8 + 2**8) ** 0.125 - (2**8 + 1) ** 0.125) * MS, rel=1e-12)
    assert state.held.tolist() == [1.5 * MB, MB], "half of it is reserved on DIMM 1"
    for left in (0.3, 0.1):
        moved = step(state, given, 0.2)
        assert state.left[0, 0] == pytest.approx(left * MB)
        assert state.home[0, 0] == -1, "it is striped until the last byte has moved"
        assert moved.used == pytest.approx([0, 0.2 * MS, 0.2 * MS, 0, 0, 0, 0]), "into DIMM 1, out of DIMM 0"
        assert moved.rank_s == pytest.approx([0.1 * MS, 0.1 * MS]), "0.2 MB read and written at 2 GB/s"
    moved = step(state, given, 0.2)
    assert moved.bytes == pytest.approx([0, 0.1 * MB, 0, 0])
    assert moved.done.tolist() == [0, 1, 0, 0]
    assert state.home.tolist() == [[1, 0]]
    assert state.held.tolist() == [MB, MB]


def test_a_localised_expert_that_clogs_its_dimm_is_striped() -> None:
    given = sizes(2)
    state = layout([0, 0], given)
    fresh = decide(state, given, np.ones((1, 2)), costs((9, 2, 8), (9, 9, 1)), NOTHING, 0.0, rebalance=False)
    assert fresh.tolist() == [[STRIPE, IDLE]]
    moved = step(state, given, 10.0)
    assert moved.used[:4] == pytest.approx([0, 0.5 * MS, 0.5 * MS, 0]), "half of it enters DIMM 1 from DIMM 0"
    assert state.home.tolist() == [[-1, 0]]
    assert state.held.tolist() == [1.5 * MB, 0.5 * MB]


def test_rebalancing_pairs_the_fullest_dimm_with_the_emptiest() -> None:
    """DIMM loads 5 (3 + 2), 2, 1 ms: the 2 ms expert goes from the first to the last, which then has 3."""
    given = sizes(4, dimms=3)
    state = layout([0, 0, 1, 2], given)
    cost = costs((9, 99, 3), (9, 99, 2), (9, 99, 2), (9, 99, 1))
    fresh = decide(state, given, np.ones((1, 4)), cost, NOTHING, 0.0, relayout=False)
    assert fresh.tolist() == [[IDLE, REBALANCE, IDLE, IDLE]]
    assert state.target[0, 1] == 2
    moved = step(state, given, 10.0)
    assert moved.used[:6] == pytest.approx([0, 0, MS, MS, 0, 0]), "1 MB at 1 GB/s out of DIMM 0, into DIMM 2"
    assert state.home.tolist() == [[0, 2, 1, 2]]


def test_in_a_chain_the_dimm_between_carries_what_passes() -> None:
    given = sizes(4, dimms=3)
    state = layout([0, 0, 1, 2], given)
    decide(
        state,
        given,
        np.ones((1, 4)),
        costs((9, 99, 3), (9, 99, 2), (9, 99, 2), (9, 99, 1)),
        NOTHING,
        0.0,
        relayout=False,
    )
    moved = step(state, given, 10.0, RATES._replace(chain=True))
    assert moved.used[:6] == pytest.approx([0, MS, MS, MS, MS, 0])
    assert moved.rank_s == pytest.approx([0.5 * MS, 0, 0.5 * MS]), "its ranks are not touched"


def test_a_prefetch_takes_the_slot_of_the_coldest_resident_at_its_first_byte() -> None:
    """1 MB: 0.5 ms of PCIe; striped, 0.5 MB over each of two channels of 0.5 GB/s: 1 ms."""
    given = sizes(3, slots=1)
    state = layout([-1, -1, 0], given, resident=(1,))
    cost = costs((0.1, 5, 9), (0.1, 1, 9), (9, 9, 0.5))
    predicted = np.array([[50.0, 5.0, 1.0]])
    fresh = decide(state, given, predicted, cost, NOTHING, 0.0, relayout=False, rebalance=False)
    assert fresh.tolist() == [[PREFETCH, IDLE, IDLE]]
    assert state.target[0, 0] == 1
    assert state.resident.tolist() == [[False, True, False]], "nothing leaves before a byte moves"
    moved = step(state, given, 0.4)
    assert state.resident.tolist() == [[False, False, False]]
    assert moved.used == pytest.approx([0, 0, 0, 0, 0.4 * MS, 0.4 * MS, 0.2 * MS])
    assert state.left[0, 0] == pytest.approx(0.6 * MB)
    step(state, given, 1.0)
    assert state.resident.tolist() == [[True, False, False]]
    assert state.home.tolist() == [[-1, -1, 0]], "the copies in the DIMMs stay where they are"


def test_a_localised_expert_is_prefetched_over_the_channel_of_its_dimm_alone() -> None:
    given = sizes(1, slots=1)
    state = layout([1], given)
    decide(state, given, np.ones((1, 1)), costs((0.1, 9, 5)), NOTHING, 0.0, relayout=False, rebalance=False)
    moved = step(state, given, 10.0)
    assert moved.used == pytest.approx([0, 0, 0, 0, 0, 2 * MS, 0.5 * MS])
    assert moved.rank_s == pytest.approx([0, 0.25 * MS])
    assert state.resident.all()


def test_the_task_that_gains_most_per_byte_goes_first_and_the_other_waits() -> None:
    given = sizes(4, dimms=2)
    state = layout([-1, -1, 0, 0], given)
    for e, gain in ((0, 1.0), (1, 2.0)):
        state.kind[0, e], state.target[0, e], state.left[0, e], state.gain[0, e] = LOCALISE, 1, 0.5 * MB, gain
        state.held[1] += 0.5 * MB
    moved = step(state, given, 0.7)
    assert state.home.tolist() == [[-1, 1, 0, 0]]
    assert state.left[0, 0] == pytest.approx(0.3 * MB), "what the link had left after the first"
    assert moved.used[1] == pytest.approx(0.7 * MS)
    assert state.age.tolist() == [[1, 0, 0, 0]]


def test_charged_transfers_end_in_their_step_and_tell_how_long_they_took() -> None:
    given = sizes(2)
    state = layout([-1, 0], given)
    decide(state, given, np.ones((1, 2)), costs((9, 4, 1), (9, 9, 2)), NOTHING, 0.001)
    moved = step(state, given, 0.2, charge=True)
    assert moved.used.max() == pytest.approx(0.5 * MS)
    assert state.home.tolist() == [[1, 0]]


def test_a_full_dimm_is_not_written_to() -> None:
    state = layout([-1, 0], sizes(2))
    full = sizes(2, room=float(state.held.max()) - 0.6 * MB)
    cost = costs((9, 4, 1), (9, 9, 2))
    assert decide(state, full, np.ones((1, 2)), cost, NOTHING, 0.001).tolist() == [[IDLE, IDLE]]


def test_a_task_that_no_longer_gains_is_dropped_unless_it_has_begun() -> None:
    given = sizes(2)
    wanted, other = costs((9, 4, 1), (9, 9, 2)), costs((9, 1, 4), (9, 9, 2))
    for begun in (False, True):
        state = layout([-1, 0], given)
        decide(state, given, np.ones((1, 2)), wanted, NOTHING, 0.001)
        if begun:
            step(state, given, 0.1)
        decide(state, given, np.ones((1, 2)), other, NOTHING, 0.001, relayout=False)
        assert bool(state.kind[0, 0]) == begun
        assert state.held.tolist() == [1.5 * MB, (MB if begun else 0.5 * MB)]


def test_a_decision_is_confirmed_if_it_gains_under_the_true_costs() -> None:
    given = sizes(2)
    state = layout([-1, 0], given)
    fresh = decide(state, given, np.ones((1, 2)), costs((9, 4, 1), (9, 9, 2)), NOTHING, 0.001)
    assert confirmed(state, costs((9, 3, 1), (9, 9, 2)), NOTHING, fresh) == 1
    assert confirmed(state, costs((9, 1, 3), (9, 9, 2)), NOTHING, fresh) == 0
