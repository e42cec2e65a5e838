"""The pins of the kernel tree: sha256 of every file under vendor/, and of its kernels' machine code per nvcc version.

`python vendor/hashes.py --check` compares the tree with vendor/HASHES and exits 1 where they differ; `--write`
refreshes the file. Machine code is the `.text` section of each kernel in the cubin of elastic/instances.cu: what nvcc
made of the kernel, without names of folders or times. One pin a line: `file PATH SHA256` or
`code NVCC_VERSION KERNEL SHA256`.
"""

import argparse
import hashlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent
NVCC_FLAGS = ("-std=c++20", "-O3", "-gencode=arch=compute_90a,code=sm_90a")
INSTANCES = Path("elastic/instances.cu")


class CompileError(Exception):
    """nvcc refused a source."""


@dataclass(frozen=True)
class Pins:
    """Hashes of files by path below vendor/, and of kernels by (nvcc version, mangled name)."""

    files: Mapping[str, str]
    code: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Return the lines of HASHES, sorted."""
        code = [f"code {version} {kernel} {digest}" for (version, kernel), digest in self.code.items()]
        return sorted(code) + sorted(f"file {name} {digest}" for name, digest in self.files.items())

    def of_version(self, version: str) -> dict[str, str]:
        return {kernel: digest for (of, kernel), digest in self.code.items() if of == version}


def sha256(data: bytes) -> str:
    """Return the hash as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def file_hashes(vendor: Path) -> dict[str, str]:
    """Hash every file below `vendor` but HASHES itself and what Python caches."""
    files = [file for file in vendor.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    names = {file.relative_to(vendor).as_posix(): file for file in files}
    return {name: sha256(file.read_bytes()) for name, file in names.items() if name != "HASHES"}


def read_pins(vendor: Path) -> Pins:
    """Read HASHES; no pins where there is no such file."""
    path = vendor / "HASHES"
    lines = [line.split() for line in path.read_text("utf-8").splitlines()] if path.exists() else []
    files = {parts[1]: parts[2] for parts in lines if parts[0] == "file"}
    return Pins(files, {(parts[1], parts[2]): parts[3] for parts in lines if parts[0] == "code"})


def nvcc_version() -> str | None:
    """Return the release of the nvcc on PATH, as in 13.0.88, or None without one."""
    if shutil.which("nvcc") is None:
        return None
    text = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"\bV(\d+\.\d+\.\d+)", text)
    return found[1] if found else None


def compile_cubin(source: Path, cubin: Path) -> str:
    """Compile `source` to `cubin` and return what ptxas says about registers and spills.

    Raises:
        CompileError: nvcc refused the source; holds what it wrote.
    """
    command = ["nvcc", *NVCC_FLAGS, "-Xptxas", "-v", "-cubin", str(source), "-o", str(cubin)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise CompileError(f"{source.name}: expected to compile for sm_90a, nvcc refused it\n{done.stderr}")
    return done.stderr


def elf_sections(elf: bytes) -> dict[str, bytes]:
    """Return the sections of a 64-bit ELF file by name; those without content are empty."""
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    entry_bytes, count, index_of_names = struct.unpack_from("<3H", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + i * entry_bytes) for i in range(count)]
    names = elf[headers[index_of_names][4] :]
    without_content = 8  # SHT_NOBITS
    return {
        names[name : names.index(b"\0", name)].decode(): b"" if kind == without_content else elf[at : at + size]
        for name, kind, _, _, at, size in headers
    }


def kernel_code(cubin: bytes) -> dict[str, str]:
    """Hash the machine code of each kernel of a cubin, by mangled name."""
    prefix = ".text."
    sections = elf_sections(cubin)
    return {name.removeprefix(prefix): sha256(code) for name, code in sections.items() if name.startswith(prefix)}


def compiled_code(source: Path) -> dict[str, str]:
    """Compile `source` and hash its kernels' machine code."""
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder) / "kernels.cubin"
        compile_cubin(source, cubin)
        return kernel_code(cubin.read_bytes())


def differences(pinned: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """Return the names that only one side has or whose hashes differ."""
    return sorted(name for name in pinned.keys() | found.keys() if pinned.get(name) != found.get(name))


def check(vendor: Path) -> list[str]:
    """Return what differs between HASHES and the tree: file names, and kernel names of the installed nvcc's code."""
    pins, version = read_pins(vendor), nvcc_version()
    changed = differences(pins.files, file_hashes(vendor))
    if version is None:
        return changed
    return changed + differences(pins.of_version(version), compiled_code(vendor / INSTANCES))


def refreshed(vendor: Path, version: str) -> Pins:
    """Return the tree's pins. Other versions' code pins stay while the tree is the one they were taken from."""
    old, files = read_pins(vendor), file_hashes(vendor)
    kept = {key: digest for key, digest in old.code.items() if key[0] != version and old.files == files}
    new = {(version, kernel): digest for kernel, digest in compiled_code(vendor / INSTANCES).items()}
    return Pins(files, kept | new)


def write(vendor: Path) -> int:
    """Refresh HASHES; exit code 1 without an nvcc, since every file change may change the code."""
    version = nvcc_version()
    if version is None:
        print("nvcc: expected on PATH to pin the kernels' machine code, found none", file=sys.stderr)
        print("install the CUDA 13.0 compiler and run this again", file=sys.stderr)
        return 1
    (vendor / "HASHES").write_text("\n".join(refreshed(vendor, version).lines()) + "\n", "utf-8")
    return 0


def report(changed: list[str]) -> int:
    """Print what differs in two lines; exit code 1 if anything does."""
    if not changed:
        return 0
    print(f"vendor/HASHES: expected to match the tree, these differ: {', '.join(changed)}", file=sys.stderr)
    print(
        "if the change to the kernel tree is meant, run `make hashes` and commit vendor/HASHES with it", file=sys.stderr
    )
    return 1


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    parser = argparse.ArgumentParser(description="Check or refresh the pins of the kernel tree.")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--check", action="store_true", help="compare the tree with vendor/HASHES")
    action.add_argument("--write", action="store_true", help="refresh vendor/HASHES")
    parser.add_argument("--vendor", type=Path, default=ROOT, help="the tree, where it is not this file's folder")
    chosen = parser.parse_args(arguments)
    try:
        return write(chosen.vendor) if chosen.write else report(check(chosen.vendor))
    except CompileError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
