"""Running a module's steps: programs on a device, other operators on the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.module import Execute, Launch, Module, Pack, Relayout, Unpack
from vdla.runtime.blocked import pack, unpack
from vdla.runtime.device import Counters, Device
from vdla.runtime.devices.host import Host
from vdla.runtime.inputs import images_in

__all__ = ["Outcome", "execute", "groups_of", "memory_bytes"]

Array = NDArray[Any]


@dataclass
class Outcome:
    """What one pass over the steps left.

    Attributes
    ----------
    values : dict of str to array
        Tensors in host memory.
    buffers : dict of int to array
        With `keep`, every buffer's tensor as it stands in the device's memory at the end.
    counters : list of Counters
        One a program.
    """

    values: dict[str, Array]
    buffers: dict[int, Array] = field(default_factory=dict)
    counters: list[Counters] = field(default_factory=list)


def groups_of(images: int, module: Module) -> int:
    """Return how many memories some images take: the core's batch of them share one."""
    return -(-images // module.config.batch)


def execute(
    module: Module,
    inputs: Mapping[str, Array],
    device: Device,
    *,
    keep: bool = False,
    progress: Callable[[str], None] = lambda doing: None,
) -> Outcome:
    """Run a network on images.

    Parameters
    ----------
    module : Module
    inputs : mapping of str to array
        (n, ...) each; of the network's own shapes where images may not share a pass.
    device : Device
        Its ``images`` is `groups_of` n.
    keep : bool
        Return the buffers as well.
    progress : callable
        Called with the name of what runs next, once a step that computes.
    """
    host = Host(module)
    images = images_in(module, inputs)
    base = device.allocate(module.arena_bytes)
    for segment in module.segments:
        device.write(base + segment.offset, segment.data)
    outcome = Outcome(dict(inputs))
    values = outcome.values

    def read(index: int, tensor: str) -> Array:
        buffer, info = module.buffers[index], module.tensors[tensor]
        data = device.read(base + buffer.offset, buffer.nbytes)
        return unpack(data, buffer, info.shape, info.dtype, images)

    def write(index: int, array: Array) -> None:
        buffer = module.buffers[index]
        device.write(base + buffer.offset, pack(array, buffer))

    for step in module.steps:
        if isinstance(step, Pack):
            write(step.buffer, values[step.tensor])
        elif isinstance(step, Unpack):
            values[step.tensor] = read(step.buffer, step.tensor)
        elif isinstance(step, Relayout):
            write(step.target, read(step.source, module.buffers[step.source].tensor))
        elif isinstance(step, Execute):
            layer = module.layers[step.layer]
            progress(layer.name)
            values[layer.outputs[0]] = host.execute(step.layer, values)
        else:
            _launch(module, step, device, base, progress)
            outcome.counters.append(device.counters())
    if keep:
        outcome.buffers = {i: read(i, b.tensor) for i, b in enumerate(module.buffers)}
    return outcome


def _launch(
    module: Module, step: Launch, device: Device, base: int, progress: Callable[[str], None]
) -> None:
    first, last = (module.layers[step.layers[k].layer].name for k in (0, -1))
    progress(first if first == last else f"{first} to {last}")
    device.launch(module.programs[step.program], base)
    device.wait()


def memory_bytes(module: Module) -> int:
    """Return the bytes that one more memory costs a simulator: its arena and its scratchpads."""
    config = module.config
    buffers = config.inp_bytes + config.acc_bytes + config.acc_depth * config.out_elem_bytes
    host = sum(
        int(np.prod(t.shape)) * np.dtype(t.dtype).itemsize
        for t in module.tensors.values()
        if t.data is None
    )
    return module.arena_bytes + buffers + config.batch * host
