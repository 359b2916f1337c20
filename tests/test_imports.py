"""Which part of vdla may import which: the table of the architecture page, held by parsing."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

DIRECTORIES = {
    "vdla": "hw/vdla",
    "vdla.bitstreams": "bitstreams",
    "vdla.compiler": "compiler",
    "vdla.runtime": "runtime",
    "vdla.sim": "sim",
}

# A module belongs to the part of its longest prefix here; what is under vdla and in none of
# these is gateware.
PARTS = {
    "vdla.abi": "base",
    "vdla.arguments": "base",
    "vdla.batching": "base",
    "vdla.boards": "base",
    "vdla.config": "base",
    "vdla.errors": "base",
    "vdla.isa": "base",
    "vdla.manual": "base",
    "vdla.module": "base",
    "vdla.processor": "base",
    "vdla.program": "base",
    "vdla.registers": "base",
    "vdla.timing": "base",
    "vdla.bitstreams": "bitstreams",
    "vdla.compiler": "compiler",
    "vdla.runtime": "runtime",
    "vdla.runtime.cli": "cli",
    "vdla.sim": "sim",
}

MAY_IMPORT = {
    "base": {"base"},
    "bitstreams": {"base", "bitstreams"},
    "gateware": {"base", "gateware"},
    "sim": {"base", "sim"},
    "compiler": {"base", "compiler"},
    "runtime": {"base", "bitstreams", "compiler", "gateware", "runtime", "sim"},
    "cli": {"base", "bitstreams", "cli", "compiler", "gateware", "runtime", "sim"},
}

# The base is what a board and every other part loads.
BASE_THIRD_PARTY = {"numpy", "tomli", "tomllib"}  # tomllib: the standard library of 3.11


def part_of(module: str) -> str | None:
    """Return the part a module belongs to, None for ``vdla`` itself, which resolves lazily."""
    if module == "vdla":
        return None
    prefixes = [name for name in PARTS if module == name or module.startswith(name + ".")]
    return PARTS[max(prefixes, key=len)] if prefixes else "gateware"


def modules() -> dict[str, Path]:
    found = {}
    for package, directory in DIRECTORIES.items():
        for path in (ROOT / directory).rglob("*.py"):
            below = list(path.relative_to(ROOT / directory).with_suffix("").parts)
            if below[-1] == "__init__":
                below.pop()
            found[".".join([package, *below])] = path
    return found


def imports_of(tree: ast.AST, module: str, *, is_package: bool) -> set[str]:
    """Return the absolute names of all that a module imports, wherever in it."""
    found = set()
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                above = parents[: len(parents) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            found.update(f"{base}.{alias.name}" for alias in node.names)
    return found


MODULES = modules()


def imports(module: str) -> set[str]:
    path = MODULES[module]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return imports_of(tree, module, is_package=path.name == "__init__.py")


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_go_down_only(module: str) -> None:
    part = part_of(module)
    if part is None:
        return
    wrong = [
        f"{module} ({part}) imports {name} ({target})"
        for name in sorted(imports(module))
        if name.partition(".")[0] == "vdla"
        and (target := part_of(name)) is not None
        and target not in MAY_IMPORT[part]
    ]
    assert wrong == []


@pytest.mark.parametrize("module", sorted(m for m in MODULES if part_of(m) == "base"))
def test_the_base_needs_numpy_alone(module: str) -> None:
    import sys

    tops = {name.partition(".")[0] for name in imports(module)}
    assert tops - set(sys.stdlib_module_names) - {"vdla"} <= BASE_THIRD_PARTY


@pytest.mark.parametrize(
    ("text", "module", "is_package", "expected"),
    [
        ("import vdla.sim.cycle", "vdla.compiler.x", False, {"vdla.sim.cycle"}),
        ("from vdla import sim", "vdla.compiler.x", False, {"vdla.sim"}),
        ("from ..sim import cycle", "vdla.compiler.x", False, {"vdla.sim.cycle"}),
        ("from . import a", "vdla.compiler", True, {"vdla.compiler.a"}),
        ("from .a import b", "vdla.compiler.te.x", False, {"vdla.compiler.te.a.b"}),
        ("def f():\n    import vdla.runtime", "vdla.sim", True, {"vdla.runtime"}),
    ],
)
def test_the_parser_sees_every_form(
    text: str, module: str, is_package: bool, expected: set[str]
) -> None:
    assert imports_of(ast.parse(text), module, is_package=is_package) == expected


def test_simulators_and_compiler_are_strangers() -> None:
    assert "sim" not in MAY_IMPORT["compiler"]
    assert "compiler" not in MAY_IMPORT["sim"]
    assert part_of("vdla.sim.cycle.events") == "sim"
    assert part_of("vdla.runtime.cli.app") == "cli"
    assert part_of("vdla.gemm") == "gateware"
