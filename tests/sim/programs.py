"""Programs in C++ against the simulator: how they are compiled, and what they say."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENGINE = sorted((ROOT / "vendor/simgpu").glob("*.cpp"))


def compiled(sources: list[Path], folder: Path, *flags: str) -> list[Path]:
    """Compile each source to an object file in `folder`."""
    command = ["g++", "-std=c++20", "-O1", "-march=x86-64-v3", *flags, "-c", *map(str, sources)]
    subprocess.run(command, check=True, cwd=folder)
    return [folder / f"{source.stem}.o" for source in sources]


def linked(units: list[Path], folder: Path) -> Path:
    """Link object files to a program in `folder`."""
    subprocess.run(["g++", *map(str, units), "-o", str(folder / "program")], check=True)
    return folder / "program"


def ran(program: Path, *arguments: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=240)
