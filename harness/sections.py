"""The sections of a composed configuration, each read into its frozen dataclass."""

from collections.abc import Iterable, Mapping
from typing import Any

from afdep.machine import Machine
from harness.screen_config import Backend, DeviceTiming, Exchange, Floor, Launcher
from harness.errors import ConfigError, valid_names
from harness.words import as_choice, as_count, as_flag, as_name, as_word

MAX_SEED = 2**31
"""Seeds stay in 32 bits so that one per source can be derived from them."""


def section(config: Mapping[str, Any], name: str, keys: Iterable[str]) -> Mapping[str, Any]:
    """A section of the configuration with exactly these keys.

    Raises:
        ConfigError: no such section, or a key that is missing or unknown.
    """
    content, expected = config.get(name), tuple(keys)
    if not isinstance(content, Mapping):
        raise ConfigError(f"{name}: expected a section, received {content!r}.", f"Give {name} {', '.join(expected)}.")
    different = sorted(set(expected) ^ set(content))
    if different:
        verb = "an unknown key" if different[0] in content else "no key"
        raise ConfigError(f"{name}: received {verb} {different[0]}.", valid_names(different[0], expected))
    return content


def exchange(config: Mapping[str, Any]) -> Exchange:
    """The `exchange` section. The kernels' own limits are checked per row, where the layout is known."""
    data = section(config, "exchange", Exchange.__dataclass_fields__)
    bucket = data["bucket"]
    return Exchange(
        top_k=as_count("exchange.top_k", data["top_k"], minimum=1),
        capacity=as_count("exchange.capacity", data["capacity"], minimum=1),
        bucket=None if bucket is None else as_count("exchange.bucket", bucket, minimum=1),
        transport_sms=as_count("exchange.transport_sms", data["transport_sms"], minimum=1),
        collect=as_choice("exchange.collect", data["collect"], ("copy", "view")),
        mode=as_choice("exchange.mode", data["mode"], ("graph", "eager")),
        seed=as_count("exchange.seed", data["seed"], minimum=0) % MAX_SEED,
    )


def backend(config: Mapping[str, Any]) -> Backend:
    """The `backend` section.

    Raises:
        ConfigError: timings that depend on order, in an odd number of pairs; GPUs without a section that times them.
    """
    data = section(config, "backend", [name for name in Backend.__dataclass_fields__ if name != "placement"])
    ranks_per_gpu = as_count("backend.ranks_per_gpu", data["ranks_per_gpu"], minimum=1)
    read = Backend(
        name=as_name("backend.name", data["name"]),
        machine=as_name("backend.machine", data["machine"]),
        deterministic=as_flag("backend.deterministic", data["deterministic"]),
        pairs=as_count("backend.pairs", data["pairs"], minimum=1),
        num_exchanges=as_count("backend.num_exchanges", data["num_exchanges"], minimum=1),
        proof_exchanges=as_count("backend.proof_exchanges", data["proof_exchanges"], minimum=1),
        ranks_per_gpu=ranks_per_gpu,
        placement="one rank per GPU" if ranks_per_gpu == 1 else f"{ranks_per_gpu} ranks on the fullest GPU",
        device=None if data["device"] is None else _device(data, str(data["machine"])),
    )
    if not read.deterministic and read.pairs % 2:
        raise ConfigError(
            f"backend.pairs: expected an even number, received {read.pairs}.",
            "Every second pair runs in the reverse order of the one before; an odd rest leaves a drift in.",
        )
    return read


def _device(backend: Mapping[str, Any], machine: str) -> DeviceTiming:
    keys = [name for name in DeviceTiming.__dataclass_fields__ if name != "floor"]
    data = section(backend, "device", keys)
    rendezvous = as_choice("backend.device.rendezvous", data["rendezvous"], ("device", "host"))
    return DeviceTiming(
        rendezvous=rendezvous,
        least_replay_us=as_count("backend.device.least_replay_us", data["least_replay_us"], minimum=0),
        replays=as_count("backend.device.replays", data["replays"], minimum=1),
        warm_up=as_count("backend.device.warm_up", data["warm_up"], minimum=1),
        wait_timeout_s=as_count("backend.device.wait_timeout_s", data["wait_timeout_s"], minimum=1),
        windows=as_choice("backend.device.windows", data["windows"], ("auto", "symmetric", "ipc")),
        floor=floor(machine),
    )


def floor(machine: str) -> Floor:
    """What no exchange can beat on a machine.

    Raises:
        MachineError: no such machine.
    """
    constants = Machine.load(machine).constants()
    return Floor(constants["nvlink_latency_ns"], constants["nvlink_gb_per_s"])


def launcher(config: Mapping[str, Any]) -> Launcher:
    """The `launcher` section."""
    data = section(config, "launcher", Launcher.__dataclass_fields__)
    return Launcher(
        name=as_choice("launcher.name", data["name"], ("local",)),
        jobs=as_count("launcher.jobs", data["jobs"], minimum=1),
        timeout_s=as_count("launcher.timeout_s", data["timeout_s"], minimum=1),
        out=as_word("launcher.out", data["out"], "a folder"),
    )
