"""The GEMM core's arithmetic: products, two to a DSP slice, and a pipelined adder tree."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vdla.config import Config

__all__ = ["MatrixProduct", "product_cycles"]

SUM_BITS = 32
_FIELD_BITS = 16
"""Of each of a multiplier's two products; they are within 2 ** 14."""
_BIAS = (1 << 31) + (1 << 15)


def product_cycles(config: Config) -> int:
    """Return the cycles from operands at the broadcast registers to sums."""
    return 3 + config.block_in.bit_length() - 1


class MatrixProduct(wiring.Component):
    """``sums[b, o] = sum(inp[b, i] * wgt[o, i] for i)``, a matrix a cycle.

    Two products share a multiplier: with ``c = (w1 << 16) + w0`` the product ``c * x`` holds
    ``w1 * x`` above ``w0 * x``. Adding 2 ** 15 to each makes both fields natural numbers, so
    that neither borrows from the other, and the trees add without signs; of a sum of 2 ** n terms
    that bias is the top bit's inverse.

    Members
    -------
    inp, wgt
        Operands, as they lie in INP and WGT.
    enable
        Bit k: what register k of the pipeline takes is wanted. The others stay as they are.
    sums
        ``batch * block_out`` sums of 32 bits, `product_cycles` later.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__(
            {
                "inp": In(config.inp_elem_bytes * 8),
                "wgt": In(config.wgt_elem_bytes * 8),
                "enable": In(product_cycles(config)),
                "sums": Out(config.batch * config.block_out * SUM_BITS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build multipliers and tree."""
        m = Module()
        config = self._config
        block_in, block_out = config.block_in, config.block_out
        # Operand registers: one pair of weights for each multiplier, one input for its lane.
        pairs = max(1, block_out // 2)
        packed: dict[tuple[int, int], Signal] = {}
        for pair in range(pairs):
            for i in range(block_in):
                low = _scalar(self.wgt, 2 * pair * block_in + i)
                register = Signal(signed(25), name=f"wgt_{pair}_{i}", reset_less=True)
                with m.If(self.enable[0]):
                    if block_out > 1:
                        high = _scalar(self.wgt, (2 * pair + 1) * block_in + i)
                        m.d.sync += register.eq((high << _FIELD_BITS) + low)
                    else:
                        m.d.sync += register.eq(low)
                packed[pair, i] = register
        sums: list[Value] = []
        for b in range(config.batch):
            inputs = []
            for i in range(block_in):
                register = Signal(signed(8), name=f"inp_{b}_{i}", reset_less=True)
                with m.If(self.enable[0]):
                    m.d.sync += register.eq(_scalar(self.inp, b * block_in + i))
                inputs.append(register)
            for pair in range(pairs):
                low_terms, high_terms = [], []
                for i in range(block_in):
                    name = f"{b}_{pair}_{i}"
                    product = Signal(2 * _FIELD_BITS, name=f"product_{name}", reset_less=True)
                    biased = Signal(2 * _FIELD_BITS, name=f"biased_{name}", reset_less=True)
                    with m.If(self.enable[1]):
                        m.d.sync += product.eq(packed[pair, i] * inputs[i])
                    with m.If(self.enable[2]):
                        m.d.sync += biased.eq(product + _BIAS)
                    low_terms.append(biased[:_FIELD_BITS])
                    high_terms.append(biased[_FIELD_BITS:])
                sums.append(_tree(m, low_terms, f"low_{b}_{pair}", self.enable[3:]))
                if block_out > 1:
                    sums.append(_tree(m, high_terms, f"high_{b}_{pair}", self.enable[3:]))
        m.d.comb += self.sums.eq(Cat(_unbiased(value) for value in sums))
        return m


def _scalar(entry: Value, index: int) -> Value:
    return entry[8 * index : 8 * index + 8].as_signed()


def _unbiased(value: Value) -> Value:
    return Cat(value[:-1], (~value[-1]).replicate(SUM_BITS - len(value) + 1))


def _tree(m: Module, terms: list[Value], name: str, enable: Value) -> Value:
    """Add terms in a binary tree with a register after each level."""
    level = 0
    while len(terms) > 1:
        width = len(terms[0]) + 1
        added = []
        for k in range(0, len(terms), 2):
            register = Signal(width, name=f"{name}_{level + 1}_{k // 2}", reset_less=True)
            with m.If(enable[level]):
                m.d.sync += register.eq(terms[k] + terms[k + 1])
            added.append(register)
        terms = added
        level += 1
    return terms[0]
