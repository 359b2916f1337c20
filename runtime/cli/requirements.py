"""What the installed vdla says it requires, against what is installed.

The lists are read from the package's own metadata, that is from ``pyproject.toml``, so they
cannot drift from it.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata

__all__ = ["Requirement", "install_command", "providing", "requirements"]

_FORM = re.compile(
    r"(?P<name>[A-Za-z0-9._-]+)\s*(?P<extras>\[[^]]*\])?\s*\(?(?P<range>[^;)]*)\)?"
    r"\s*(?:;\s*(?P<marker>.*))?$"
)
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
_PYTHON_BELOW = re.compile(r"python_version\s*<\s*['\"](\d+)\.(\d+)['\"]")

# Where the name that is imported is not the name that is installed.
_IMPORTED_AS = {
    "PIL": "pillow",
    "sklearn": "scikit-learn",
    "xgboost": "xgboost-cpu",
    "yaml": "pyyaml",
}


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """One distribution that vdla asks for.

    Parameters
    ----------
    name : str
        The distribution's name in a package index.
    extra : str
        The extra that asks for it; empty for the base install.
    wanted : str
        The range of versions asked for, such as ``>=2.0``.
    installed : str or None
        The installed version, None where there is none.
    """

    name: str
    extra: str
    wanted: str
    installed: str | None

    @property
    def satisfied(self) -> bool:
        """Whether a version is installed, and one in the wanted range."""
        if self.installed is None:
            return False
        have = _release(self.installed)
        return all(_holds(have, clause.strip()) for clause in self.wanted.split(","))


def requirements() -> list[Requirement]:
    """Return what applies to this Python, base first, then extras as pyproject.toml has them."""
    found = []
    for text in metadata.requires("vdla") or []:
        match = _FORM.match(text)
        if match is None or match["name"] == "vdla":  # an extra that includes another one
            continue
        marker = match["marker"] or ""
        below = _PYTHON_BELOW.search(marker)
        if below and sys.version_info[:2] >= (int(below[1]), int(below[2])):
            continue
        extra = _EXTRA.search(marker)
        found.append(
            Requirement(
                name=match["name"],
                extra=extra[1] if extra else "",
                wanted=match["range"].strip(),
                installed=_installed(match["name"]),
            )
        )
    return found


def providing(module: str) -> Requirement | None:
    """Return the requirement whose distribution brings `module`, None for a stranger."""
    top = module.partition(".")[0]
    name = _IMPORTED_AS.get(top, top).replace("_", "-").lower()
    return next((one for one in requirements() if one.name.lower() == name), None)


def install_command(packages: Iterable[Requirement]) -> str:
    """Return the shell line that installs `packages` beside this vdla."""
    words = [sys.executable, "-m", "pip", "install", *(one.name + one.wanted for one in packages)]
    return shlex.join(words)


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _holds(have: tuple[int, ...], clause: str) -> bool:
    """Return whether a release is in one clause of a range, such as ``>=2.0``."""
    bound = _release(clause.lstrip("=<>"))
    if clause.startswith("=="):  # ==X.Y.* : one minor version
        return have[: len(bound)] == bound
    if clause.startswith("<"):
        return have < bound
    return have >= bound


def _release(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, without the zeros at its end: 2 and 2.0.0 are equal."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(part) for part in match[0].split(".")] if match else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
