"""Which maker of windows serves a group, and that every rank gives one up that fails on any rank."""

import logging
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")
from afdep import DeviceError, ShapeError
from afdep.cuda import agreement, makers, windows
from afdep.cuda.makers import Place
from afdep.cuda.windows import Windows

wanted_makers = st.sampled_from([None, *makers.MAKERS])
places = st.lists(st.builds(Place, st.sampled_from("ab"), st.sampled_from("0123")), min_size=1, max_size=6)
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


class Group:
    """Rank 0's view of a group of two on the given places, where makers fail on rank 1 as told."""

    def __init__(self, monkeypatch, of_ranks, failing=()):
        self.released = []
        self._attempt, self._failing, self._places = "", failing, of_ranks
        monkeypatch.setattr(windows, "_own_gpu", lambda: "0")
        monkeypatch.setattr(agreement, "gathered", self._gathered)
        monkeypatch.setattr(windows, "_symmetric", lambda group, num_bytes: self._made("symmetric"))
        monkeypatch.setattr(windows, "_mapped", lambda library, group, num_bytes: self._made("ipc"))

    def _made(self, maker):
        self._attempt = maker
        return Windows(maker, [1, 2], lambda: self.released.append(maker))

    def _gathered(self, group, value):
        if isinstance(value, Place):
            return self._places
        return [value, "invalid handle" if self._attempt in self._failing else None]


def make(wanted=None):
    return windows.make(SimpleNamespace(), None, 64, wanted)


@pytest.mark.parametrize("wanted", makers.MAKERS)
def test_a_maker_that_was_asked_for_makes_the_windows(monkeypatch, caplog, wanted):
    Group(monkeypatch, TWO_GPUS)
    assert make(wanted).maker == wanted
    assert caplog.records == []


def test_a_maker_that_cannot_serve_is_replaced_with_a_line_in_the_log(monkeypatch, caplog):
    Group(monkeypatch, ONE_GPU)
    with caplog.at_level(logging.WARNING, "afdep"):
        assert make("symmetric").maker == "ipc"
    assert "symmetric memory does not serve here (torch's rendezvous refuses ranks that share a GPU)" in caplog.text


@pytest.mark.parametrize(("failing", "other"), [("ipc", "symmetric"), ("symmetric", "ipc")])
def test_a_maker_that_fails_on_a_peer_is_given_up_here_too(monkeypatch, caplog, failing, other):
    group = Group(monkeypatch, TWO_GPUS, {failing})
    assert make(failing).maker == other
    assert group.released == [failing]
    assert "rank 1: invalid handle" in caplog.text


def test_a_group_that_no_maker_serves_is_told_the_last_reason(monkeypatch):
    Group(monkeypatch, TWO_GPUS, set(makers.MAKERS))
    with pytest.raises(DeviceError, match="rank 1: invalid handle"):
        make()


def test_what_is_no_maker_is_refused():
    with pytest.raises(ShapeError, match="maker: expected symmetric or ipc, received 'fabric'"):
        windows.check_maker("fabric")


@pytest.mark.parametrize("failing", [None, "allocate", "open"])
def test_mapped_windows_are_given_back_also_when_they_fail(monkeypatch, failing):
    live = set()
    library = SimpleNamespace(
        cuda_ipc_allocate=lambda size, handle: None if failing == "allocate" else live.add(1) or 1,
        cuda_ipc_open=lambda handle: None if failing == "open" else live.add(2) or 2,
        cuda_ipc_close=live.discard,
        cuda_ipc_free=live.discard,
        check=lambda status: None,
        reason=lambda: "refused",
    )
    monkeypatch.setattr(agreement, "gathered", lambda group, value: [value, b"handle"])
    monkeypatch.setattr(windows.dist, "get_rank", lambda group: 0)
    monkeypatch.setattr(windows.dist, "barrier", lambda group: None)
    made = windows._mapped(library, None, 64)
    assert made == "refused" if failing else made.addresses == [1, 2]
    if failing is None:
        made.release()
    assert live == set()
