"""Becomes afdep/__init__.py of a fake tree: the real layouts, routings and digest around a fake World."""

from afdep import routing
from afdep.digest import native_digest
from afdep.layout import Layout
from afdep.trace import Trace
from afdep.world import Load, World

__all__ = ["Layout", "Load", "Trace", "World", "native_digest", "routing"]
"""Public names, as far as a measured process needs them."""
