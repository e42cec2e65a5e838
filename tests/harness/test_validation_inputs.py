"""What a source's graph reads holds what is sent, bit for bit; on the CPU's tensors in place of a GPU's."""

import pytest

from harness.compose import compose
from harness.validation.settings import validation_settings
from harness.validation.simulated import open_end
from harness.validation.turns import turns

pytestmark = pytest.mark.requires("torch")
NAMES = "cases=[bucket-cycle,empty-sources,skipped-sources]"
TRIALS = [
    trial
    for trial in validation_settings(compose("validate", ["validation=small", "backends=[cuda]", NAMES])).trials
    if (trial.layout, trial.mode, trial.arm) == ("2A2F", "graph", "afdep")
]


@pytest.fixture
def rank_end(monkeypatch):
    torch = pytest.importorskip("torch")
    from harness.validation import rank_end

    for name in ("zeros", "full"):
        make = getattr(torch, name)
        monkeypatch.setattr(torch, name, lambda *told, device=None, make=make, **kinds: make(*told, **kinds))
    monkeypatch.setattr(torch.Tensor, "cuda", lambda tensor: tensor)
    return rank_end


def bits(tensor):
    torch = pytest.importorskip("torch")
    return tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: trial.label)
def test_inputs_hold_every_turn_and_no_route_past_its_tokens(trial, rank_end):
    shape = open_end(trial).shape
    for turn in turns(trial, shape):
        held, own = rank_end._Inputs(shape, turn.bucket), turn.sent[0]
        arguments = rank_end.uploaded(own), rank_end.to_device(own.topk_idx), rank_end.to_device(own.topk_weights)
        held.take(own, arguments)
        count = len(own.x)
        assert int(held.count) == count
        assert bits(held.x[:count]) == own.x.tobytes()
        assert bits(held.ids[:count]) == own.topk_idx.tobytes()
        assert bool((held.ids[count:] == -1).all())
        assert own.scales is None or bits(held.scales[:count]) == own.scales.tobytes()
