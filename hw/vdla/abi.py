"""What a compiled library says of itself: what it needs, what it holds, what its functions take.

A library of machine code carries this as JSON in the constant ``vdla_library``, so that who loads
it can refuse a machine or an array with a reason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from vdla.errors import ModuleError

__all__ = ["LIBRARY_SYMBOL", "POOL_VERSION", "Argument", "LibraryInfo"]

LIBRARY_SYMBOL = "vdla_library"
POOL_VERSION = 1
"""Of the thread pool in a library: its functions, and the memory that its threads share."""

_FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Argument:
    """An array that a function takes, by its address.

    Attributes
    ----------
    dtype : str
    shape : tuple of int
        In elements; rows lie one after the other.
    written : bool
        The function writes it. Nothing else that it is given may overlap it.
    align : int
        Its address is a multiple of so many bytes; 1 asks for the dtype's own alignment alone.
    """

    dtype: str
    shape: tuple[int, ...]
    written: bool = False
    align: int = 1


@dataclass(frozen=True, kw_only=True)
class LibraryInfo:
    """What a library says of itself.

    Attributes
    ----------
    architecture : str
        A name of ``vdla.processor.ELF_MACHINES``.
    level : str
        The target that it was compiled for.
    requires : tuple of str
        Features of the processor, as in ``vdla.processor.features``.
    pool : int
        The version of its thread pool, as in ``POOL_VERSION``.
    functions : mapping of str to tuple of Argument
        What each function takes, in the order of its pointers.
    """

    architecture: str
    level: str
    requires: tuple[str, ...]
    pool: int
    functions: Mapping[str, tuple[Argument, ...]]

    def to_json(self) -> str:
        """Return it as text; the same value gives the same text."""
        functions = {
            name: [
                {"dtype": a.dtype, "shape": a.shape, "written": a.written, "align": a.align}
                for a in arguments
            ]
            for name, arguments in self.functions.items()
        }
        fields = {
            "format": _FORMAT,
            "architecture": self.architecture,
            "level": self.level,
            "requires": self.requires,
            "pool": self.pool,
            "functions": functions,
        }
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))

    @staticmethod
    def from_json(text: str | bytes) -> LibraryInfo:
        """Return what a text says.

        Raises
        ------
        ModuleError
            It was written by another version of vdla, or is damaged.
        """
        try:
            fields = json.loads(text)
            if fields["format"] != _FORMAT:
                raise ModuleError(
                    f"A library's format must be {_FORMAT}, not {fields['format']}: "
                    "compile it again with this version of vdla."
                )
            functions = {
                name: tuple(
                    Argument(
                        dtype=a["dtype"],
                        shape=tuple(a["shape"]),
                        written=a["written"],
                        align=a["align"],
                    )
                    for a in arguments
                )
                for name, arguments in fields["functions"].items()
            }
            return LibraryInfo(
                architecture=fields["architecture"],
                level=fields["level"],
                requires=tuple(fields["requires"]),
                pool=fields["pool"],
                functions=functions,
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModuleError(
                f"A library must say what it holds as JSON, and this one's text is damaged "
                f"({error}): compile it again."
            ) from None
