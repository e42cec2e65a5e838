"""A mixture-of-experts layer whose attention and experts are on different ranks, in torch, checked against one process.

    python -m examples.moe_layer              # a GPU for every rank, or one that they share; without any, the simulator
    python -m examples.moe_layer --simulate   # on the simulator, whatever there is
    python -m examples.moe_layer --layout 1A1F

Attention ranks route their tokens (softmax over the top-k experts) and dispatch them. FFN ranks apply SwiGLU experts to
what arrives, by one grouped GEMM over `expert_offsets`, weight each row and reply. On GPUs both ends are CUDA graphs,
captured once and replayed with new tokens. Every result is compared with the same layer computed in one process.
"""

import argparse
import os
import socket
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.nn import functional

import afdep

HIDDEN, INTERMEDIATE, EXPERTS, TOP_K, TOKENS, STEPS = 256, 512, 8, 2, 48, 4
TOLERANCE = 0.02  # of the largest element: BF16 keeps 8 bits, and the two sides round in another order
SHAPE: dict[str, Any] = {"hidden": HIDDEN, "num_experts": EXPERTS, "top_k": TOP_K, "capacity": 64}


@dataclass
class Weights:
    """Of one layer, the same on every rank.

    Args:
        router: [H, experts].
        gate_up: BF16 [experts, H, 2 I], gate and up projections side by side.
        down: BF16 [experts, I, H].
    """

    router: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor

    @classmethod
    def make(cls, device: str) -> "Weights":
        torch.manual_seed(0)
        shapes = ((HIDDEN, EXPERTS), (EXPERTS, HIDDEN, 2 * INTERMEDIATE), (EXPERTS, INTERMEDIATE, HIDDEN))
        router, gate_up, down = (torch.randn(shape) * shape[-2] ** -0.5 for shape in shapes)
        return cls(router.to(device), gate_up.bfloat16().to(device), down.bfloat16().to(device))


def route(x: torch.Tensor, router: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The experts of each token, int64 [T, K], and the softmax of their logits, fp32 [T, K]."""
    top = (x.float() @ router).topk(TOP_K, dim=-1)
    return top.indices, top.values.softmax(dim=-1)


def swiglu(rows: torch.Tensor, ends: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    """SwiGLU experts over expert-major rows, BF16 [rows, H]; expert e has those before ends[e] that no other has."""
    gate, up = functional.grouped_mm(rows, gate_up, offs=ends).chunk(2, dim=-1)
    return functional.grouped_mm(functional.silu(gate) * up, down, offs=ends)


def attention(buffer: afdep.ExchangeBuffer, x: torch.Tensor, weights: Weights) -> torch.Tensor:
    """An Attention rank's layer: route, dispatch, collect."""
    ids, shares = route(x, weights.router)
    buffer.source_dispatch(x, ids, shares, bucket=TOKENS)
    return buffer.source_collect()


def experts(buffer: afdep.ExchangeBuffer, gate_up: torch.Tensor, down: torch.Tensor) -> None:
    """An FFN rank's layer: receive, compute, reply."""
    received = buffer.ffn_receive(bucket=TOKENS)
    rows = swiglu(received.x, received.expert_offsets[1:], gate_up, down)
    buffer.ffn_reply(received, (rows * received.weights[:, None]).bfloat16())


def in_one_process(x: torch.Tensor, weights: Weights) -> torch.Tensor:
    """The layer without ranks: every expert over its tokens in turn, summed in fp32."""
    ids, shares = route(x, weights.router)
    y = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
    for expert in range(EXPERTS):
        token, lane = (ids == expert).nonzero(as_tuple=True)
        gate, up = (x[token] @ weights.gate_up[expert]).chunk(2, dim=-1)
        rows = (functional.silu(gate) * up) @ weights.down[expert]
        y.index_add_(0, token, rows.float() * shares[token, lane, None])
    return y.bfloat16()


def check(y: torch.Tensor, x: torch.Tensor, weights: Weights) -> float:
    """The largest difference from the layer in one process, as a share of the largest element."""
    expected = in_one_process(x, weights).float()
    error = float((y.float() - expected).abs().max() / expected.abs().max())
    if not error <= TOLERANCE:
        raise SystemExit(f"expected the layer of one process within {TOLERANCE}, received a difference of {error:.3f}")
    return error


def on_gpus(rank: int, layout: str, port: int) -> None:
    """One rank, in a process of its own."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("gloo", rank=rank, world_size=afdep.Layout.parse(layout).num_ranks)
    weights = Weights.make("cuda")
    buffer = afdep.Buffer(None, layout=layout, **SHAPE)
    x = torch.zeros(TOKENS, HIDDEN, dtype=torch.bfloat16, device="cuda")
    local = slice(rank * buffer.shape.experts_per_rank, (rank + 1) * buffer.shape.experts_per_rank)

    def layer() -> torch.Tensor | None:
        if buffer.role == "attention":
            return attention(buffer, x, weights)
        experts(buffer, weights.gate_up[local], weights.down[local])
        return None

    layer()  # the first exchange waits for peers that still load, so it is not captured
    buffer.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = layer()
    for step in range(STEPS):
        x.copy_(tokens(rank, step))
        graph.replay()
        buffer.synchronize()
        if y is not None:
            print(f"step {step}, rank {rank}: within {check(y, x, weights):.4f} of one process", flush=True)
    del graph
    buffer.close()
    dist.destroy_process_group()


def on_the_simulator(layout: str) -> None:
    """All ranks, in this process: rows arrive, and replies leave, when the world runs."""
    weights = Weights.make("cpu")
    world = afdep.World(layout, **SHAPE)
    for step in range(STEPS):
        sent = [tokens(source.rank, step) for source in world.sources]
        for source, x in zip(world.sources, sent, strict=True):
            source.source_dispatch(x, *route(x, weights.router), bucket=TOKENS)
        arrived = [(ffn, ffn.ffn_receive(bucket=TOKENS)) for ffn in world.ffns]
        world.run()
        for ffn, received in arrived:
            local = slice(ffn.rank * ffn.shape.experts_per_rank, (ffn.rank + 1) * ffn.shape.experts_per_rank)
            rows, ends, shares = (torch.from_numpy(one) for one in numpy_of(received))
            out = swiglu(rows.view(torch.bfloat16), ends, weights.gate_up[local], weights.down[local])
            ffn.ffn_reply(received, (out * shares[:, None]).bfloat16())
        collected = [source.source_collect() for source in world.sources]
        world.run()
        for source, y, x in zip(world.sources, collected, sent, strict=True):
            error = check(torch.from_numpy(y.view("int16")).view(torch.bfloat16), x, weights)
            print(f"step {step}, rank {source.rank}: within {error:.4f} of one process")


def numpy_of(received: afdep.Received) -> tuple[Any, Any, Any]:
    """Rows as words of two bytes, ends of the experts and weights; numpy has no BF16 that torch takes."""
    return received.x.view("int16"), received.expert_offsets[1:].copy(), received.weights


def tokens(rank: int, step: int) -> torch.Tensor:
    """Fresh ones for every rank and step."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(TOKENS, HIDDEN, generator=generator).bfloat16()


def main() -> None:
    """Run where it can."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--simulate", action="store_true", help="run on the simulator")
    parser.add_argument("--layout", default="2A2F", help="Attention and FFN ranks; by default 2A2F")
    chosen = parser.parse_args()
    if chosen.simulate or not torch.cuda.is_available():
        on_the_simulator(chosen.layout)
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(on_gpus, (chosen.layout, port), nprocs=afdep.Layout.parse(chosen.layout).num_ranks)


if __name__ == "__main__":
    main()
