"""Names of a package that load their module when they are first used (PEP 562), so that importing it loads nothing.

The package says once where each name comes from: by the imports that type checkers read.
"""

import ast
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any


def names_of(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose `if TYPE_CHECKING:` block imports its public names.

    Args:
        package: its name; the call stands in its `__init__`.

    Raises:
        AttributeError: from `__getattr__`, for a name that is not public.
    """
    module = sys.modules[package]

    @cache
    def homes() -> dict[str, tuple[str, str]]:
        return _imported(Path(str(module.__file__)).read_text(encoding="utf-8"))

    def load(name: str) -> Any:
        if name.startswith("__") or name not in homes():
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=module)
        home, original = homes()[name]
        value = import_module(f"{home}.{original}") if home == package else getattr(import_module(home), original)
        setattr(module, name, value)
        return value

    return load, lambda: sorted({*vars(module), *homes()})


def _imported(source: str) -> dict[str, tuple[str, str]]:
    """Name to (module, name there) of what a package imports for type checkers; its own modules come from itself."""
    blocks = [node for node in ast.parse(source).body if isinstance(node, ast.If)]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: (str(node.module), alias.name) for node in imports for alias in node.names}
