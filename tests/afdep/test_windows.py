"""Which maker of windows serves a group, and that ranks meet in the same collectives whatever fails on one of them."""

import logging
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")
import torch
from torch.distributed import _symmetric_memory as symmetric_memory

from afdep import DeviceError, ShapeError
from afdep.cuda import agreement, makers, mapping, windows
from afdep.cuda.makers import Place

wanted_makers = st.sampled_from([None, *makers.MAKERS])
places = st.lists(st.builds(Place, st.sampled_from("ab"), st.sampled_from("0123")), min_size=1, max_size=6)
MULTICAST = "TORCH_SYMM_MEM_DISABLE_MULTICAST"
TWO_GPUS = [Place("a", "0"), Place("a", "1")]
ONE_GPU = [Place("a", "0"), Place("a", "0")]


@given(wanted_makers, places)
def test_only_makers_that_can_serve_are_tried_each_once(wanted, of_ranks):
    tried = makers.candidates(wanted, of_ranks)
    assert sorted(tried) == sorted(m for m in makers.MAKERS if makers.objection(m, of_ranks) is None)


@given(st.sampled_from(makers.MAKERS), places)
def test_what_was_asked_for_is_tried_first_where_it_can_serve(wanted, of_ranks):
    can_serve = makers.objection(wanted, of_ranks) is None
    assert (makers.candidates(wanted, of_ranks)[:1] == [wanted]) == can_serve


def test_symmetric_memory_is_the_first_choice_of_ranks_with_a_gpu_each():
    assert makers.candidates(None, TWO_GPUS) == ["symmetric", "ipc"]


def test_ranks_that_share_a_gpu_are_mapped():
    assert makers.candidates(None, ONE_GPU) == ["ipc"]


def test_nothing_serves_ranks_that_share_a_gpu_on_several_hosts():
    assert makers.candidates(None, [*ONE_GPU, Place("b", "0")]) == []


class Company:
    """Two ranks, threads of this process, that must come to the same collectives in the same order.

    `failing` holds (rank, what fails there); `live` the blocks and mappings that have not been given back.
    """

    def __init__(self, monkeypatch, of_ranks=TWO_GPUS, failing=()):
        self.places, self.failing, self.live = of_ranks, set(failing), set()
        self.met = [[], []]
        self._values, self._meeting = [None, None], threading.Barrier(2)
        monkeypatch.setattr(agreement, "gathered", lambda group, value: group.meet("gather", value))
        monkeypatch.setattr(windows.dist, "get_rank", lambda group: group.rank)
        monkeypatch.setattr(mapping.dist, "barrier", lambda group: group.meet("barrier", None))
        monkeypatch.setenv(MULTICAST, "1")
        monkeypatch.setattr(windows, "_own_gpu", lambda: "0")
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
        monkeypatch.setattr(symmetric_memory, "empty", lambda size, dtype, device: torch.ones(size, dtype=dtype))
        monkeypatch.setattr(symmetric_memory, "rendezvous", lambda memory, group: group.rendezvous())

    def meet(self, rank, collective, value):
        """All values by rank, once both ranks have come to this collective."""
        self.met[rank].append(collective)
        self._values[rank] = (collective, value)
        self._meeting.wait(timeout=1)
        values = list(self._values)
        self._meeting.wait(timeout=1)
        assert len({name for name, _ in values}) == 1, f"ranks meet in different collectives: {values}"
        return [value for _, value in values]

    def play(self, action):
        """What the action gives or raises on each rank, as `action(group, library)`."""

        def on(rank):
            try:
                return action(Rank(self, rank), library(self, rank))
            except DeviceError as error:
                return error

        with ThreadPoolExecutor(2) as ranks:
            return list(ranks.map(on, (0, 1)))


class Rank:
    """One rank's group."""

    def __init__(self, company, rank):
        self.company, self.rank = company, rank

    def meet(self, collective, value):
        value = self.company.places[self.rank] if isinstance(value, Place) else value
        return self.company.meet(self.rank, collective, value)

    def rendezvous(self):
        if (self.rank, "rendezvous") in self.company.failing:
            raise RuntimeError("invalid handle")
        return SimpleNamespace(buffer_ptrs=[1, 2])


def library(company, rank):
    """The native library of a rank: each block and mapping is an address of its own."""

    def taken(what, address):
        if (rank, what) in company.failing:
            return None
        company.live.add(address)
        return address

    def given(what, address):
        company.live.discard(address)
        return int((rank, what) in company.failing)

    return SimpleNamespace(
        cuda_ipc_allocate=lambda size, handle: taken("allocate", 10 + rank),
        cuda_ipc_open=lambda handle: taken("open", 20 + rank),
        cuda_ipc_close=lambda address: given("close", address),
        cuda_ipc_free=lambda address: given("free", address),
        reason=lambda: "invalid handle",
    )


def made(company, wanted=None):
    """The maker that served each rank, or the error that it raised."""
    found = company.play(lambda group, library: windows.make(library, group, 64, wanted))
    return [getattr(one, "maker", one) for one in found]


@pytest.mark.parametrize("wanted", makers.MAKERS)
def test_a_maker_that_was_asked_for_makes_the_windows(monkeypatch, caplog, wanted):
    assert made(Company(monkeypatch), wanted) == [wanted, wanted]
    assert caplog.records == []


def test_a_maker_that_cannot_serve_is_replaced_with_a_line_in_the_log(monkeypatch, caplog):
    with caplog.at_level(logging.WARNING, "afdep"):
        assert made(Company(monkeypatch, ONE_GPU), "symmetric") == ["ipc", "ipc"]
    assert "symmetric memory does not serve here (torch's rendezvous refuses ranks that share a GPU)" in caplog.text


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(
    ("wanted", "fails", "other"),
    [("ipc", "open", "symmetric"), ("ipc", "allocate", "symmetric"), ("symmetric", "rendezvous", "ipc")],
)
def test_a_maker_that_fails_on_one_rank_is_given_up_by_all(monkeypatch, caplog, rank, wanted, fails, other):
    company = Company(monkeypatch, failing={(rank, fails)})
    assert made(company, wanted) == [other, other]
    assert company.met[0] == company.met[1]
    assert f"(rank {rank}: invalid handle)" in caplog.text
    assert bool(company.live) == (other == "ipc")


def test_a_group_that_no_maker_serves_is_told_the_last_reason(monkeypatch):
    company = Company(monkeypatch, failing={(1, "open"), (0, "rendezvous")})
    assert [str(one).splitlines()[0].split("received: ")[1] for one in made(company)] == ["rank 1: invalid handle."] * 2


def test_what_is_no_maker_is_refused():
    with pytest.raises(ShapeError, match="maker: expected symmetric or ipc, received 'fabric'"):
        windows.check_maker("fabric")


def test_mapped_windows_are_addressed_by_rank_and_given_back(monkeypatch):
    company = Company(monkeypatch)
    both = company.play(lambda group, library: windows._mapped(library, group, 64))
    assert [one.addresses for one in both] == [[10, 20], [21, 11]]
    with ThreadPoolExecutor(2) as ranks:
        list(ranks.map(lambda one: one.release(), both))
    assert company.live == set()


@pytest.mark.parametrize("fails", ["close", "free"])
def test_memory_that_one_rank_cannot_give_back_keeps_no_peer_waiting(monkeypatch, fails):
    company = Company(monkeypatch, failing={(1, fails)})
    both = company.play(lambda group, library: windows._mapped(library, group, 64).release())
    assert both[0] is None
    assert isinstance(both[1], DeviceError)
    assert (company.met[0], company.met[1], company.live) == (["gather", "gather", "barrier"],) * 2 + (set(),)


def test_a_mapping_that_failed_and_cannot_be_given_back_is_given_up_by_all(monkeypatch, caplog):
    company = Company(monkeypatch, failing={(0, "open"), (1, "close")})
    assert made(company, "ipc") == ["symmetric", "symmetric"]
    assert "mapped memory was not given back (invalid handle)" in caplog.text


def test_ranks_that_meet_in_different_collectives_are_noticed(monkeypatch):
    company = Company(monkeypatch)
    with pytest.raises(AssertionError, match="different collectives"):
        company.play(lambda group, library: group.meet(["gather", "barrier"][group.rank], None))


@pytest.mark.parametrize(("said", "stands"), [(None, "1"), ("0", "0")])
def test_torch_is_told_to_set_up_no_multicast_unless_the_environment_says_otherwise(monkeypatch, said, stands):
    company = Company(monkeypatch)
    monkeypatch.delenv(MULTICAST)
    if said is not None:
        monkeypatch.setenv(MULTICAST, said)
    made(company, "symmetric")
    assert os.environ[MULTICAST] == stands
