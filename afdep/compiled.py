"""What a built library holds: its machine code, and the digest of that."""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from afdep.digest import CodeDigest, short_hash
from afdep.errors import BuildError

_PROGBITS, _ALLOCATED = 1, 2
_DEVICE = ".nv"  # .nv_fatbin and the pointer to it
_KERNEL = ".text."
_ELF = b"\x7fELF"
_FATBIN_MAGIC = 0xBA55ED50
_EMBEDDED_DIGEST = re.compile(rb"n[0-9a-f]{16}")


@dataclass(frozen=True)
class Section:
    """A section of an ELF file: its name, whether it is loaded with content of its own, and that content."""

    name: str
    is_loaded: bool
    content: bytes


def code_digest(library: Path) -> CodeDigest:
    """The digest of a library's machine code: equal for equal code, whatever comments and names the sources have.

    It covers what is loaded of the host's part, without the native digest that is embedded there, and, of the CUDA
    target, the instructions of each kernel.

    Raises:
        BuildError: no library, or kernels that are compressed.
    """
    parts = [(section.name, section.content) for section in _host(library)]
    kernels = [
        (section.name, section.content)
        for image in _device_images(library)
        for section in sections(image)
        if section.name.startswith(_KERNEL)
    ]
    return CodeDigest("c" + short_hash([*sorted(parts), *sorted(kernels)]))


def sections(elf: bytes) -> list[Section]:
    """The sections of a 64-bit ELF file."""
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    entry_bytes, count, index_of_names = struct.unpack_from("<3H", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + i * entry_bytes) for i in range(count)]
    names = elf[headers[index_of_names][4] :]
    no_content = 8  # SHT_NOBITS
    return [
        Section(
            names[name : names.index(b"\0", name)].decode(),
            kind == _PROGBITS and bool(flags & _ALLOCATED),
            b"" if kind == no_content else elf[at : at + size],
        )
        for name, kind, flags, _, at, size in headers
    ]


def _read(library: Path) -> list[Section]:
    try:
        return sections(library.read_bytes())
    except (OSError, struct.error, ValueError, IndexError) as error:
        raise BuildError(
            f"native library: expected the ELF file {library.name}, received: {error}.", "Build it again."
        ) from error


def _host(library: Path) -> Iterator[Section]:
    for section in _read(library):
        if section.is_loaded and not section.name.startswith(_DEVICE):
            blank = _EMBEDDED_DIGEST.sub(lambda digest: b"\0" * len(digest[0]), section.content)
            yield Section(section.name, True, blank)


def _device_images(library: Path) -> Iterator[bytes]:
    """The cubins in a library's fat binaries: containers of entries, each a header and an ELF file."""
    for section in _read(library):
        if section.name != ".nv_fatbin":
            continue
        at = 0
        while at < len(section.content):
            magic, _, header_bytes, size = struct.unpack_from("<IHHQ", section.content, at)
            if magic != _FATBIN_MAGIC:
                raise BuildError(f"{library.name}: expected a fat binary, received {magic:#x}.", "Build it again.")
            yield from _entries(library, section.content[at + header_bytes : at + header_bytes + size])
            at += -(-(header_bytes + size) // 8) * 8


def _entries(library: Path, fatbin: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(fatbin):
        header_bytes, size = struct.unpack_from("<IQ", fatbin, at + 4)
        image = fatbin[at + header_bytes : at + header_bytes + size]
        if not image.startswith(_ELF):
            raise BuildError(
                f"{library.name}: expected kernels as plain ELF files, received {image[:4].hex()}.",
                "Build it with --no-compress, which keeps the kernels readable.",
            )
        yield image
        at += header_bytes + size
