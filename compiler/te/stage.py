"""One stage of a schedule: the loops that compute one tensor."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import index

from vdla.errors import ScheduleError

from .axes import check_bound
from .expr import Expr, Read, Reduce, Var, as_expr, ceildiv, minimum
from .intrin import TensorIntrin
from .relations import Fuse, Relation, Split
from .tensor import IterVar, Tensor
from .traverse import walk

__all__ = ["Attach", "Stage"]


@dataclass(frozen=True)
class Attach:
    """Where a stage is computed: inside a loop of another stage."""

    stage: Stage
    axis: IterVar


@dataclass(eq=False)
class Stage:
    """The loops of one tensor, outermost first, with what is asked of each.

    Attributes
    ----------
    tensor : Tensor
        What the stage computes.
    axis, reduce_axis : tuple of IterVar
        Original axes.
    leaves : list of IterVar
        Present loops, outermost first.
    body : Expr
        Element of the tensor, in terms of the original axes.
    scope : str
        Memory that holds the result: ``global`` or a special scope of the target.
    annotations : dict of IterVar to dict
        What `unroll`, `bind`, `pragma` and their like recorded.
    attach : Attach or None
        None computes the stage at the root.
    inlined : bool
        Whether readers compute the body themselves.
    whole : bool
        Whether every tile is computed in the size of the greatest, as `whole_tiles` asks.
    whole_terms : bool
        Whether every step of a reduction takes as many terms, as `whole_tiles` asks.
    multiples : tuple of int
        Of which the extents of a tile's last dimensions are made multiples.
    """

    tensor: Tensor
    axis: tuple[IterVar, ...]
    reduce_axis: tuple[IterVar, ...]
    body: Expr
    scope: str = "global"
    leaves: list[IterVar] = field(default_factory=list)
    relations: list[Relation] = field(default_factory=list)
    annotations: dict[IterVar, dict[str, object]] = field(default_factory=dict)
    intrinsics: dict[IterVar, TensorIntrin] = field(default_factory=dict)
    attach: Attach | None = None
    inlined: bool = False
    whole: bool = False
    whole_terms: bool = False
    multiples: tuple[int, ...] = ()

    @classmethod
    def of(cls, tensor: Tensor, scope: str = "global") -> Stage:
        """Return the default stage of a computed tensor."""
        if tensor.body is None:
            raise ScheduleError(f"{tensor.name} is an input; only computed tensors have a stage.")
        reduce_axes = tensor.body.axes if isinstance(tensor.body, Reduce) else ()
        leaves = [*tensor.axes, *reduce_axes]
        return cls(tensor, tensor.axes, reduce_axes, tensor.body, scope, leaves)

    @property
    def name(self) -> str:
        """Name of the tensor."""
        return self.tensor.name

    @property
    def scheduled(self) -> bool:
        """Whether any primitive but `set_scope` has been applied."""
        return bool(
            self.relations
            or self.annotations
            or self.intrinsics
            or self.attach is not None
            or self.inlined
            or self.whole
            or self.leaves != [*self.axis, *self.reduce_axis]
        )

    def reads(self) -> list[Tensor]:
        """Return the tensors that the body reads, each once, in order."""
        found: dict[Tensor, None] = {}
        for part in walk(self.body):
            if isinstance(part, Read):
                found.setdefault(part.tensor)
        return list(found)

    def split(
        self, axis: IterVar, factor: int | None = None, nparts: int | None = None
    ) -> tuple[IterVar, IterVar]:
        """Divide a loop in two.

        Before: ``for i in 10: ...``. After ``o, r = s[c].split(i, factor=4)``::

            for i.o in 3:
              for i.i in min(4, 10 - 4 * i.o): ...   # i = 4 * i.o + i.i

        Parameters
        ----------
        axis : IterVar
            A present loop of the stage.
        factor : int, optional
            Extent of the inner loop.
        nparts : int, optional
            Extent of the outer loop; give one of the two.

        Returns
        -------
        outer, inner : IterVar
        """
        place = self._place(axis)
        if (factor is None) == (nparts is None):
            raise ScheduleError(f"Splitting {axis.name} takes either factor or nparts.")
        count = factor if factor is not None else nparts
        if count is None or count < 1:
            raise ScheduleError(f"A split of {axis.name} must be by at least 1, not {count}.")
        outer_var, inner_var = Var(f"{axis.name}.o"), Var(f"{axis.name}.i")
        length = as_expr(count) if factor is not None else ceildiv(axis.extent, count)
        rest = axis.extent - outer_var * length
        exact = axis.extent % length == as_expr(0)
        outer = IterVar(outer_var, (axis.extent + (length - 1)) // length, axis.kind)
        inner = IterVar(inner_var, length if exact else minimum(length, rest), axis.kind)
        self.leaves[place : place + 1] = [outer, inner]
        self.relations.append(Split(axis, outer, inner, factor, nparts))
        return outer, inner

    def tile(
        self, y: IterVar, x: IterVar, y_factor: int, x_factor: int
    ) -> tuple[IterVar, IterVar, IterVar, IterVar]:
        """Split two loops and bring both outer loops outside.

        Before: ``for y: for x: ...``. After ``s[c].tile(y, x, 4, 8)``::

            for y.o: for x.o: for y.i in 4: for x.i in 8: ...
        """
        y_outer, y_inner = self.split(y, factor=y_factor)
        x_outer, x_inner = self.split(x, factor=x_factor)
        self.reorder(y_outer, x_outer, y_inner, x_inner)
        return y_outer, x_outer, y_inner, x_inner

    def fuse(self, outer: IterVar, inner: IterVar) -> IterVar:
        """Make one loop of two neighbours.

        Before: ``for i in 4: for j in 8: ...``. After ``s[c].fuse(i, j)``::

            for i.j in 32: ...   # i = i.j // 8, j = i.j % 8
        """
        place = self._place(outer)
        if self._place(inner) != place + 1:
            raise ScheduleError(
                f"Fused loops must be neighbours, outer first: {outer.name} and "
                f"{inner.name} are not; reorder them."
            )
        if outer.kind != inner.kind:
            raise ScheduleError(f"{outer.name} and {inner.name} must both be data or both reduce.")
        if any(part is outer.var for part in walk(inner.extent)):
            raise ScheduleError(
                f"The extent of {inner.name} must not depend on {outer.name} for the two to fuse: "
                "split by a factor that divides."
            )
        var = Var(f"{outer.name}.{inner.name}")
        fused = IterVar(var, outer.extent * inner.extent, outer.kind)
        self.leaves[place : place + 2] = [fused]
        self.relations.append(Fuse(outer, inner, fused))
        return fused

    def reorder(self, *order: IterVar) -> None:
        """Put loops into the given order, in the places that they hold together.

        Before: ``for i: for j: for k: ...``. After ``s[c].reorder(k, i)``::

            for k: for j: for i: ...
        """
        places = sorted(self._place(axis) for axis in order)
        if len(set(order)) != len(order):
            raise ScheduleError("A reorder must name each loop once.")
        for place, axis in zip(places, order, strict=True):
            self.leaves[place] = axis

    def compute_at(self, consumer: Stage, axis: IterVar) -> None:
        """Compute this stage inside a loop of its consumer, only the part needed there.

        Before::

            for i in 16: b[i] = a[i] + 1
            for i.o in 4: for i.i in 4: c[...] = b[...] * 2

        After ``s[b].compute_at(s[c], i.o)``::

            for i.o in 4:
              for i in 4: b[i] = a[4 * i.o + i] + 1
              for i.i in 4: c[...] = b[i.i] * 2
        """
        consumer._place(axis)
        host: Stage | None = consumer
        while host is not None:
            if host is self:
                raise ScheduleError(
                    f"{self.name} must not be computed inside itself; {consumer.name} is "
                    f"{self.name} or computed in it."
                )
            host = host.attach.stage if host.attach else None
        self.attach, self.inlined = Attach(consumer, axis), False

    def compute_root(self) -> None:
        """Compute this stage whole, outside every loop. Undoes `compute_at` and `compute_inline`.

        Before: ``for i.o in 4: for i in 4: b[i] = ...; c[...] = b[i] * 2``. After
        ``s[b].compute_root()``: ``for i in 16: b[i] = ...``, then the loops of ``c``.
        """
        self.attach, self.inlined = None, False

    def compute_inline(self) -> None:
        """Put the body into every reader and keep no buffer.

        Before: ``b[i] = a[i] + 1; c[i] = b[i] * 2``. After: ``c[i] = (a[i] + 1) * 2``.
        """
        if isinstance(self.body, Reduce):
            raise ScheduleError(
                f"{self.name} is a reduction and cannot be inlined; use compute_at."
            )
        self.inlined, self.attach = True, None

    def set_scope(self, scope: str) -> None:
        """Keep the result in a memory scope of the target, such as ``inp`` or ``acc``.

        Before: ``b`` (16,) lies in memory. After ``s[b].set_scope("acc")`` it lies in ACC, from its
        first write to its last read, and takes as much of it as the loop it is computed at needs.
        """
        self.scope = scope

    def whole_tiles(self, *, terms: bool = False) -> None:
        """Compute every tile in the size of the greatest one, past the end of the tensor too.

        Before, with ``b`` computed inside ``io``::

            for io in 3:
              for i in min(4, 10 - 4 * io): b[i] = a[4 * io + i]

        After ``s[b].whole_tiles()``::

            for io in 3:
              for i in 4: b[i] = select(4 * io + i < 10, a[4 * io + i], 0)

        So loops keep a constant number of iterations, and threads share them out evenly. Elements
        past the end are 0; those of a reduction are whatever its source gives there, so that what
        it reads must be made of whole tiles too. It changes nothing at the root.

        With `terms`, a reduction that is split goes on past its end as well. Before, k being split
        by 4: ``for ko in 3: for ki in min(4, 10 - 4 * ko): c += a[4 * ko + ki]``. After::

            for ko in 3: for ki in 4: c += a[4 * ko + ki]    # a in whole tiles: 0 past its end

        Lowering checks that it is a sum whose terms are 0 there.

        Parameters
        ----------
        terms : bool
        """
        self.whole, self.whole_terms = True, terms

    def whole_multiples(self, *multiples: int) -> None:
        """Compute whole tiles, the extents of their last dimensions rounded up to multiples.

        Before, with ``b`` (7,) computed whole inside another stage: ``for i in 7: b[i] = a[i]``.
        After ``s[b].whole_multiples(16)``::

            for i in 16: b[i] = select(i < 7, a[i], 0)

        So an intrinsic finds as many iterations as it replaces. It changes nothing at the root.

        Parameters
        ----------
        *multiples : int
            One for each of the last dimensions.
        """
        self.whole_tiles()
        self.multiples = multiples

    def bind(self, axis: IterVar, thread: str) -> None:
        """Run a loop's iterations as threads.

        ``vthread`` interleaves virtual threads. Before: ``for t in 2: for k: load(t, k);
        gemm(t, k)``. After binding t to ``vthread``::

            for k: load(0, k); load(1, k); gemm(0, k); gemm(1, k)   # private buffers a thread

        ``blockIdx.x``, ``threadIdx.x`` and their like in y and z are a GPU's: a grid of blocks, and
        the threads of a block. Before: ``for i in 8: for j in 32: c[i, j] = a[i, j] + 1``. After
        ``s[c].bind(i, "blockIdx.x"); s[c].bind(j, "threadIdx.x")``, in each thread of each block::

            c[blockIdx.x, threadIdx.x] = a[blockIdx.x, threadIdx.x] + 1

        Threads of a block share what lies in the scope ``shared``. A stage in that scope that is
        computed inside the loops of threads is computed once for all of them, as far as any of them
        needs it; its own loops, bound to ``threadIdx`` again, say which thread computes which
        element, and lowering puts barriers where threads would get ahead of each other.

        There ``vthread`` takes what a thread computes apart: 8 threads of 2 pieces of 4 elements
        each. Before: ``for v in 2: for t in 8: for j in 4: c[32 * v + 4 * t + j] = ...``. After
        binding v to ``vthread`` and t to ``threadIdx.x``, in each thread, unrolled::

            for v in 2: for j in 4: c[32 * v + 4 * threadIdx.x + j] = ...

        Virtual threads share what threads share, and have registers of their own.
        """
        check_bound(thread)
        self._annotate(axis, "bind", thread)

    def bound(self, axis: IterVar) -> str | None:
        """Return what a loop is bound to, None where it is an ordinary one."""
        thread = self.annotations.get(axis, {}).get("bind")
        return None if thread is None else str(thread)

    def unroll(self, axis: IterVar) -> None:
        """Repeat the body instead of looping; on VDLA each step is an instruction of its own.

        Before: ``for i in 2: for j in 8: b[i, j] = a[i, j] + 1``, one instruction of two loops.
        After ``s[b].unroll(i)``::

            for j in 8: b[0, j] = a[0, j] + 1   # one instruction
            for j in 8: b[1, j] = a[1, j] + 1   # the next
        """
        self._annotate(axis, "unroll", True)

    def vectorize(self, axis: IterVar) -> None:
        """Run a loop's iterations in vector lanes.

        Before: ``for i in 8: b[i] = a[i] + 1``. After ``s[b].vectorize(i)``::

            b[0:8] = a[0:8] + 1

        A loop whose iterations run different statements, or have buffers of their own, is unrolled
        instead; one of no constant extent stays a loop. On a GPU it reads and writes 2 or 4 floats
        of memory at a time, where they are known to be whole vectors, and is unrolled elsewhere.
        """
        self._annotate(axis, "vectorize", True)

    def parallel(self, axis: IterVar) -> None:
        """Share a loop's iterations among a processor's threads.

        Before: ``for i in 100: ...``. After ``s[b].parallel(i)``, on two threads, about::

            for i in 0..49: ...        for i in 50..99: ...

        A loop inside another one that is shared runs on one thread.

        Raises
        ------
        ScheduleError
            The loop reduces: its iterations would add to the same element at once.
        """
        if axis.kind == "reduce":
            raise ScheduleError(
                f"A parallel loop must be of data, and {axis.name} reduces: share a loop around it."
            )
        self._annotate(axis, "parallel", True)

    def pragma(self, axis: IterVar, name: str, value: object = True) -> None:
        """Mark a loop for the target, such as ``dma_copy`` on a copy stage.

        Before: ``for i in 4: for j in 8: buffer[i, j] = a[i, j]``. After
        ``s[buffer].pragma(i, "dma_copy")``: one LOAD of 4 x 8. A name that the target does not
        know changes nothing.
        """
        self._annotate(axis, name, value)

    def storage_align(self, axis: IterVar, factor: int) -> None:
        """Pad the stage's buffer so that its step along a dimension is a multiple of ``factor``.

        Before: rows of ``t[4, 12]`` begin every 12 elements. After ``s[t].storage_align(i, 16)``:
        every 16; nothing is in between. So vectors can begin at whole lines, and rows a power of
        two apart can be kept from one set of a cache.

        Parameters
        ----------
        axis : IterVar
            A dimension of the tensor, whether or not it is still a loop.
        factor : int
            Elements.

        Raises
        ------
        ScheduleError
            The axis is no dimension, or the factor is below 1. Lowering refuses buffers that
            others lay out: those of inputs and outputs, and of registers and scratchpads.
        """
        if axis not in self.axis:
            dimensions = ", ".join(one.name for one in self.axis)
            raise ScheduleError(
                f"A buffer is padded along a dimension of {self.name}, and {axis.name} is none: "
                f"those are {dimensions}."
            )
        try:
            count = index(factor)
        except TypeError:
            count = 0
        if count < 1:
            raise ScheduleError(
                f"A step must be a multiple of a whole number of elements from 1, not {factor}."
            )
        self.annotations.setdefault(axis, {})["storage_align"] = count

    def storage_factor(self, axis: IterVar) -> int:
        """Return what the step of the stage's buffer along a dimension must be a multiple of."""
        factor = self.annotations.get(axis, {}).get("storage_align", 1)
        assert isinstance(factor, int)
        return factor

    def double_buffer(self) -> None:
        """Ask for two copies of the buffer in turn, so that filling one overlaps using the other.

        Recorded for targets that do it; on VDLA, virtual threads (`bind`) hide the latency.
        """
        self._annotate(self.leaves[0], "double_buffer", True)

    def tensorize(self, axis: IterVar, intrinsic: TensorIntrin) -> None:
        """Replace a loop and everything inside it by a hardware intrinsic.

        Before: ``for bi in 16: for bo in 16: acc[bo] += inp[bi] * wgt[bo, bi]``. After
        ``s[acc].tensorize(bo, gemm)``: ``gemm(acc, inp, wgt)``. Lowering checks that the loops
        compute what the intrinsic declares.
        """
        self._place(axis)
        self.intrinsics[axis] = intrinsic

    def _annotate(self, axis: IterVar, key: str, value: object) -> None:
        self._place(axis)
        self.annotations.setdefault(axis, {})[key] = value

    def _place(self, axis: IterVar) -> int:
        try:
            return self.leaves.index(axis)
        except ValueError:
            loops = ", ".join(leaf.name for leaf in self.leaves)
            raise ScheduleError(
                f"{axis.name} must be a present loop of {self.name}; those are {loops}."
            ) from None
