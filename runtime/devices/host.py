"""The processor beside the accelerator: operators that stay off it, in numpy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.module import Module
from vdla.runtime.hostops import KERNELS, Operand

__all__ = ["Host"]


class Host:
    """Runs layers that are placed on the cpu.

    Parameters
    ----------
    module : Module
        Its constants serve as operands.
    """

    def __init__(self, module: Module) -> None:
        self._module = module

    def execute(self, layer: int, values: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """Return a layer's output.

        Parameters
        ----------
        layer : int
            Index in the module.
        values : mapping of str to array
            Activations in host memory by tensor, (N, ...) each for any N.
        """
        spec, tensors = self._module.layers[layer], self._module.tensors
        operands = []
        for name in spec.inputs:
            info = tensors[name]
            operands.append(Operand(info, values[name] if info.data is None else info.data))
        output = KERNELS[spec.op](spec, operands, tensors[spec.outputs[0]])
        return np.asarray(output)
