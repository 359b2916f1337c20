"""A component behind three pins, for place and route of what has more ports than a part has."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Scanned"]


class Scanned(wiring.Component):
    """A component whose every port is a register of a shift chain.

    Its paths then all run from register to register, as they do beside registered neighbours, and
    none can be optimized away.

    Parameters
    ----------
    component : wiring.Component
    name : str
        Of the submodule that it becomes.

    Members
    -------
    data_in, data_out
        Ends of the two chains: values for the inputs, one bit a cycle, and what the outputs were.
    capture
        Take the outputs now.
    """

    def __init__(self, component: wiring.Component, name: str) -> None:
        self._component, self._name = component, name
        super().__init__({"data_in": In(1), "capture": In(1), "data_out": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """Connect ports to chains."""
        m = Module()
        m.submodules[self._name] = component = self._component
        inputs: list[Value] = []
        outputs: list[Value] = []
        for _path, member, value in component.signature.flatten(component):
            side = outputs if member.flow is Out else inputs
            side.append(Value.cast(value))
        driven, seen = Cat(*inputs), Cat(*outputs)
        driving, taken = Signal(len(driven)), Signal(len(seen))
        m.d.sync += [
            driving.eq(Cat(self.data_in, driving)),
            taken.eq(Cat(taken[-1:], taken)),
        ]
        with m.If(self.capture):
            m.d.sync += taken.eq(seen)
        m.d.comb += [driven.eq(driving), self.data_out.eq(taken[-1])]
        return m
