"""The GEMM core's arithmetic: products, two to a DSP slice, and a pipelined adder tree."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vdla.config import Config

__all__ = ["MatrixProduct", "product_cycles"]

SUM_BITS = 32
_PRODUCT_BITS = 16


def product_cycles(config: Config) -> int:
    """Return the cycles from operands at the broadcast registers to sums."""
    return 3 + config.block_in.bit_length() - 1


class MatrixProduct(wiring.Component):
    """``sums[b, o] = sum(inp[b, i] * wgt[o, i] for i)``, a matrix a cycle.

    Two products share a multiplier: with ``c = (w1 << 16) + w0`` the product ``c * x`` holds
    ``w0 * x`` in its low 16 bits and, once the borrow ``P[15]`` is given back, ``w1 * x`` above.

    Members
    -------
    inp, wgt
        Operands, as they lie in INP and WGT.
    sums
        ``batch * block_out`` sums of 32 bits, `product_cycles` later.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__(
            {
                "inp": In(config.inp_elem_bytes * 8),
                "wgt": In(config.wgt_elem_bytes * 8),
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
                register = Signal(signed(25), name=f"wgt_{pair}_{i}")
                if block_out > 1:
                    high = _scalar(self.wgt, (2 * pair + 1) * block_in + i)
                    m.d.sync += register.eq((high << 16) + low)
                else:
                    m.d.sync += register.eq(low)
                packed[pair, i] = register
        sums: list[Value] = []
        for b in range(config.batch):
            inputs = []
            for i in range(block_in):
                register = Signal(signed(8), name=f"inp_{b}_{i}")
                m.d.sync += register.eq(_scalar(self.inp, b * block_in + i))
                inputs.append(register)
            for pair in range(pairs):
                low_terms, high_terms = [], []
                for i in range(block_in):
                    product = Signal(signed(33), name=f"product_{b}_{pair}_{i}")
                    output = Signal(signed(33), name=f"output_{b}_{pair}_{i}")
                    m.d.sync += [
                        product.eq(packed[pair, i] * inputs[i]),
                        output.eq(product),
                    ]
                    low_terms.append(output[:_PRODUCT_BITS].as_signed())
                    borrow = output[_PRODUCT_BITS - 1]
                    high_terms.append(
                        output[_PRODUCT_BITS : 2 * _PRODUCT_BITS].as_signed() + borrow
                    )
                sums.append(_tree(m, low_terms, f"low_{b}_{pair}"))
                if block_out > 1:
                    sums.append(_tree(m, high_terms, f"high_{b}_{pair}"))
        m.d.comb += self.sums.eq(Cat(_extend(value) for value in sums))
        return m


def _scalar(entry: Value, index: int) -> Value:
    return entry[8 * index : 8 * index + 8].as_signed()


def _extend(value: Value) -> Value:
    return Cat(value, value[-1].replicate(SUM_BITS - len(value)))


def _tree(m: Module, terms: list[Value], name: str) -> Value:
    """Add terms in a binary tree with a register after each level."""
    level = 0
    while len(terms) > 1:
        level += 1
        width = _PRODUCT_BITS + 1 + level
        added = []
        for k in range(0, len(terms), 2):
            register = Signal(signed(width), name=f"{name}_{level}_{k // 2}")
            m.d.sync += register.eq(terms[k] + terms[k + 1])
            added.append(register)
        terms = added
    return Value.cast(terms[0])
