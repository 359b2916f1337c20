"""The knobs of a convolution: what is chosen about how it is computed."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DIRECT", "GROUPS", "MATRICES", "PAIRS", "QUADS", "WINOGRAD_2", "WINOGRAD_4", "Choice"]

DIRECT, PAIRS, QUADS, MATRICES = "direct", "pairs", "quads", "matrices"
WINOGRAD_2, WINOGRAD_4 = "winograd 2x2", "winograd 4x4"

GROUPS = {DIRECT: 1, PAIRS: 2, QUADS: 4}
"""Channels whose products an instruction adds up, of 32, 16 and 8 bits."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """How a convolution is computed; `default_choice` gives one by rules, tuning others.

    Attributes
    ----------
    algorithm : str
        `DIRECT`; `PAIRS`, `QUADS` or `MATRICES`, of 8-bit integers; `WINOGRAD_2` or `WINOGRAD_4`,
        by the outputs of a tile.
    flat : bool
        Whether register tiles are cut from all pixels in a row, and not from the image's rows.
    rows, columns, vectors : int
        Of a register tile: pixels down and across, and vectors of channels for each. Winograd's
        algorithms multiply `columns` tiles of the image at a time; of matrices, `columns` tiles of
        16 pixels are multiplied by `vectors` tiles of 16 channels.
    block : int
        Input channels that lie side by side in the packed image: a divisor of them.
    unrolled : int
        Steps of the innermost loop of the reduction, over a block, that are repeated instead of
        looping: a divisor of their number.
    at_once : int
        Rows of tiles, or tiles where they are flat, that all output channels are computed for
        before the next ones, 0 for all: few, so that their pixels stay in the cache while one
        group of channels after another reads them, or all, so that a group's weights do. Of
        Winograd's algorithms, rows of tiles that are transformed, multiplied and transformed back
        at a time; with 0 each step is taken for the whole image, spread over threads by itself.
    """

    algorithm: str
    flat: bool = False
    rows: int = 1
    columns: int
    vectors: int
    block: int
    unrolled: int
    at_once: int
