"""Hardware intrinsics, declared as tensor expressions."""

from __future__ import annotations

from dataclasses import dataclass

from .expr import Var
from .tensor import Tensor

__all__ = ["TensorIntrin"]


@dataclass(frozen=True, eq=False)
class TensorIntrin:
    """An operation of the hardware, declared by what it computes.

    The schedule language and the lowering know nothing of the target: they match a loop nest
    against ``declaration`` and leave the name, the operands and the scalars for the target's
    emitter.

    Attributes
    ----------
    name : str
        The emitter's key.
    declaration : Tensor
        A computed tensor over placeholders; its axes and reduce axes are the loops replaced.
    operands : tuple of Tensor
        The placeholders, in the emitter's order.
    scopes : tuple of str
        Memory scope of the result and of each operand.
    scalars : tuple of Var
        Variables of the declaration that match integer constants.
    in_place : int or None
        Operand whose buffer the result replaces: the hardware updates it where it lies.
    clears : bool
        Whether the emitter starts a reduction itself; if not, stores before it do.
    strided : bool
        Whether rows of a tile may lie apart in its buffer: the emitter is told how far.
    """

    name: str
    declaration: Tensor
    operands: tuple[Tensor, ...]
    scopes: tuple[str, ...]
    scalars: tuple[Var, ...] = ()
    in_place: int | None = None
    clears: bool = True
    strided: bool = False
