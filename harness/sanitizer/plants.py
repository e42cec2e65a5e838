"""Faults for the tools to find, one edit of a copied tree each: a tool that misses its own proves nothing elsewhere."""

from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError

SOUND = "sound"
"""The name of the tree as it is."""


@dataclass(frozen=True)
class Plant:
    """One fault.

    Args:
        name: of the tree that has it.
        tool: that must report it.
        kernel: that it is in.
        what: it does, in words.
        file: that is edited.
        behind: the line that it is put behind, with those around that make it the only such place.
        text: what is put there.
    """

    name: str
    tool: str
    kernel: str
    what: str
    file: str
    behind: str
    text: str

    def put(self, tree: Path) -> None:
        """Edit a tree.

        Raises:
            UsageError: it has no such place, or several.
        """
        path = tree / self.file
        source = path.read_text(encoding="utf-8")
        if source.count(self.behind) != 1:
            found = source.count(self.behind)
            raise UsageError(f"plant {self.name}: expected one place in {self.file}, received {found}.", "Bring it up.")
        path.write_text(source.replace(self.behind, self.behind + self.text), encoding="utf-8")


_LAST = "  if (e.expert_alignment > 1) copy_detail::pad_experts(e);\n  prim::bulk_wait();\n"
_UNUSED_SHARED = 200_000
"""A byte of a CTA's shared memory behind every slot of small rows."""

PLANTS = (
    Plant(
        name="bounds",
        tool="memcheck",
        kernel="copy_epilogue",
        what="one thread writes a word just past the counts of experts",
        file="vendor/elastic/copy_epilogue.cuh",
        behind=_LAST,
        text="  if (prim::cta() == 0 && prim::warp() == 0)\n"
        "    prim::elect([&] { prim::store(e.expert_counts + e.experts_per_rank, 0); });\n",
    ),
    Plant(
        name="shared",
        tool="racecheck",
        kernel="copy_epilogue",
        what="all warps of a CTA write their number into one word of shared memory, and none waits for another",
        file="vendor/elastic/copy_epilogue.cuh",
        behind=_LAST,
        text=f"  volatile int* planted = prim::shared<int>({_UNUSED_SHARED});\n"
        "  prim::elect([&] { *planted = prim::warp(); });\n",
    ),
)
