"""Static addresses in the scratchpads."""

from __future__ import annotations

from vdla.compiler.ir.stmt import Alloc, Block, Buffer, For, Stmt
from vdla.config import Config
from vdla.errors import LoweringError

from .ops import element_scalars

__all__ = ["assign_scratchpads", "buffer_entries"]


def buffer_entries(buffer: Buffer, config: Config) -> int:
    """Return the entries a buffer takes, all virtual threads' copies together."""
    return -(-buffer.total // element_scalars(config, buffer.scope))


def assign_scratchpads(body: Stmt, config: Config, *, from_end: bool = False) -> dict[Buffer, int]:
    """Return the first entry of every scratchpad buffer.

    Buffers that live at the same time lie one behind the other; siblings reuse what was freed.

    Parameters
    ----------
    body : Stmt
    config : Config
    from_end : bool
        Fill scratchpads from their last entry. Operators of a program alternate, so that the next
        one's first loads need not wait for the places of the one before.

    Raises
    ------
    LoweringError
        A scratchpad is too small; the message lists who wants how much of it.
    """
    depth = {"inp": config.inp_depth, "wgt": config.wgt_depth, "acc": config.acc_depth}
    places: dict[Buffer, int] = {}

    def visit(stmt: Stmt, live: tuple[Buffer, ...]) -> None:
        if isinstance(stmt, For):
            visit(stmt.body, live)
        elif isinstance(stmt, Block):
            for child in stmt.stmts:
                visit(child, live)
        elif isinstance(stmt, Alloc):
            buffer = stmt.buffer
            if buffer.scope not in depth:
                raise LoweringError(
                    f"{buffer.name} lies in scope {buffer.scope}, but VDLA's scopes are "
                    f"{', '.join(depth)}: give every intermediate tensor one by set_scope."
                )
            peers = [other for other in live if other.scope == buffer.scope]
            start = max((places[p] + buffer_entries(p, config) for p in peers), default=0)
            end = start + buffer_entries(buffer, config)
            if end > depth[buffer.scope]:
                wants = ", ".join(f"{b.name} {buffer_entries(b, config)}" for b in (*peers, buffer))
                raise LoweringError(
                    f"The {buffer.scope} buffer holds {depth[buffer.scope]} entries on "
                    f"{config.name}, but {end} are needed at a time ({wants}): use smaller tiles."
                )
            places[buffer] = start
            visit(stmt.body, (*live, buffer))

    visit(body, ())
    if from_end:
        return {
            buffer: depth[buffer.scope] - start - buffer_entries(buffer, config)
            for buffer, start in places.items()
        }
    return places
