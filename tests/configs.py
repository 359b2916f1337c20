"""The configurations that tests run over: the test matrix of the design."""

from __future__ import annotations

from vdla.config import PYNQ_Z1, TINY, Config

__all__ = ["EVERY", "MATRIX", "SMALL", "VARIANTS"]


def _config(
    batch: int, block_in: int, block_out: int, uop: int, inp: int, wgt: int, acc: int
) -> Config:
    return Config(
        name=f"{batch}x{block_in}x{block_out}",
        batch=batch,
        block_in=block_in,
        block_out=block_out,
        uop_bytes=uop << 10,
        inp_bytes=inp << 10,
        wgt_bytes=wgt << 10,
        acc_bytes=acc << 10,
    )


MATRIX: tuple[Config, ...] = (
    PYNQ_Z1,
    TINY,
    _config(1, 8, 8, 8, 16, 64, 64),
    _config(1, 32, 32, 32, 64, 1024, 256),
    _config(2, 16, 16, 32, 64, 256, 256),
    _config(4, 16, 16, 32, 128, 256, 512),
    _config(1, 16, 32, 32, 32, 512, 256),
    _config(1, 32, 16, 32, 64, 512, 128),
    PYNQ_Z1.replace(
        name="halved",
        uop_bytes=16 << 10,
        inp_bytes=16 << 10,
        wgt_bytes=128 << 10,
        acc_bytes=64 << 10,
    ),
)
"""Every shape of core and depth of buffer that must work; sizes keep depths near the default's."""

SMALL: tuple[Config, ...] = (TINY, MATRIX[2], MATRIX[4])
"""A quick selection: the smallest, a narrow one, one with a batch."""

EVERY: dict[str, Config] = {config.name: config for config in MATRIX}
"""The matrix by name."""

VARIANTS: dict[str, Config] = {
    "shallow_queues": TINY.replace(token_queue_depth=2, command_queue_depth=2),
    "2x8x4_32_bit_bursts_of_4": TINY.replace(
        batch=2, block_in=8, axi_data_bits=32, axi_burst_beats=4, axi_outstanding=2
    ),
    "1x4x8_axi4_128_bit": TINY.replace(
        block_out=8, axi_version=4, axi_data_bits=128, axi_burst_beats=64, axi_outstanding=8
    ),
}
"""Other queues, buses and shapes, on small cores that build fast."""
