"""Micro-op kernels: shared, resident, loaded in planned groups."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vdla.config import Config
from vdla.isa import Load, MemoryType, ModuleName, encode_uops

from .ops import Op

__all__ = ["KernelStore", "place_kernels"]


@dataclass
class KernelStore:
    """The micro-ops of a program in memory; equal kernels are kept once a group.

    Attributes
    ----------
    config : Config
        The accelerator.
    base_bytes : int
        Byte offset of the store in the arena; a multiple of 4.
    """

    config: Config
    base_bytes: int
    _groups: list[NDArray[np.uint32]] = field(default_factory=list)
    _known: dict[bytes, int] = field(default_factory=dict)
    _size: int = 0

    def add(self, group: NDArray[np.uint32]) -> int:
        """Append micro-ops that are loaded together and return the first one's dram_base."""
        key = group.tobytes()
        if key not in self._known:
            self._known[key] = self._size
            self._groups.append(group)
            self._size += len(group)
        return self.base_bytes // self.config.uop_elem_bytes + self._known[key]

    def image(self) -> NDArray[np.uint8]:
        """Return the bytes of the store."""
        if not self._groups:
            return np.zeros(0, np.uint8)
        return np.concatenate(self._groups).view(np.uint8)


def place_kernels(ops: list[Op], store: KernelStore) -> list[Op]:
    """Give every kernel a place in the micro-op buffer and insert the loads.

    Before: ``gemm k0; gemm k1; gemm k0``. After: ``load.uop k0 k1; gemm 0..; gemm n..; gemm 0..``.

    A group is the longest run of instructions of one layer whose different kernels fit the
    buffer together; its kernels are loaded by one instruction in front of the first. Groups
    alternate between ends of the buffer only when they must: a group that fits behind the last
    one goes there, and what is still resident from there is used without a load.
    """
    depth = store.config.uop_depth
    placed: list[Op] = []
    resident: dict[bytes, int] = {}
    cursor = 0
    at = 0
    while at < len(ops):
        end, fresh = _group(ops, at, resident, depth - cursor)
        if end == at:  # not even one instruction's kernel fits behind: start over
            resident, cursor = {}, 0
            end, fresh = _group(ops, at, resident, depth)
        load_at = next((k for k in range(at, end) if ops[k].kernel is not None), end)
        for k in range(at, end):
            op = ops[k]
            if k == load_at and fresh:
                placed.append(_load(fresh, cursor, store, op.layer))
                for key, offset, _ in fresh:
                    resident[key] = cursor + offset
                cursor += sum(size for _, _, size in fresh)
            if op.kernel is not None:
                begin = resident[op.kernel.key]
                op.fields["uop_begin"], op.fields["uop_end"] = begin, begin + len(op.kernel)
            placed.append(op)
        at = end
    return placed


def _group(
    ops: list[Op], at: int, resident: dict[bytes, int], room: int
) -> tuple[int, list[tuple[bytes, int, int]]]:
    """Return where a group ends and its kernels that are not resident: key, offset, size."""
    fresh: dict[bytes, tuple[int, int]] = {}
    used, end = 0, at
    while end < len(ops) and ops[end].layer == ops[at].layer:
        kernel = ops[end].kernel
        if kernel is not None and kernel.key not in resident and kernel.key not in fresh:
            if used + len(kernel) > room:
                break
            fresh[kernel.key] = (used, len(kernel))
            used += len(kernel)
        end += 1
    return end, [(key, offset, size) for key, (offset, size) in fresh.items()]


def _load(fresh: list[tuple[bytes, int, int]], sram: int, store: KernelStore, layer: int) -> Op:
    columns = np.concatenate([np.frombuffer(key, np.int64).reshape(-1, 3) for key, _, _ in fresh])
    uops = encode_uops(columns[:, 0], columns[:, 1], columns[:, 2], store.config)
    fields = {
        "memory_type": MemoryType.UOP,
        "sram_base": sram,
        "dram_base": store.add(uops),
        "x_size": len(uops),
    }
    return Op(ModuleName.COMPUTE, Load, fields, layer)
