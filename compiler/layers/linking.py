"""Which layer reads which, and the padding that makes their shapes meet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from vdla.compiler.graph.shapes import same_padding, window_output
from vdla.errors import ModelError

from .row import Pads, Row, Size

__all__ = ["Layer", "link"]


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A row whose input and padding are known.

    Attributes
    ----------
    row : Row
        Channels and filters are those that it has in the network.
    size, out : (int, int)
        Height and width of its input and its output.
    pads : ((int, int), (int, int))
    reads : tuple of str
        A name of a layer for each operand, or "" for an input of the network.
    """

    row: Row
    size: Size
    out: Size
    pads: Pads
    reads: tuple[str, ...]


def link(rows: Sequence[Row]) -> list[Layer]:
    """Return layers with inputs, outputs and padding, in the order of the list.

    A layer reads what the list says, or else the layer before it if that one's output has the
    shape of its input, or else an input of its own. Shapes follow ONNX's rule,
    ``floor((size + padding - window) / stride) + 1``. Padding that is not given is

    - what makes the layer's output the next one's input, or a source's output this one's;
    - else half the window on every side, where the sizes of the list are those of tensors, and
      none where they hold their padding. Layers that meet tell which it is.

    Raises
    ------
    ModelError
        A source does not have the shape that its reader needs.
    """
    half = _sizes_are_unpadded(rows)
    layers: list[Layer] = []
    by_name: dict[str, Layer] = {}
    for index, row in enumerate(rows):
        following = rows[index + 1] if index + 1 < len(rows) else None
        layer = _linked(row, following, layers, by_name, half)
        if row.name in by_name:
            row.place.refuse(f"Layers must have different names, not {row.name} twice: rename one.")
        by_name[row.name] = layer
        layers.append(layer)
    return layers


def _linked(
    row: Row,
    following: Row | None,
    layers: Sequence[Layer],
    by_name: dict[str, Layer],
    half: bool,
) -> Layer:
    if row.sources is not None:
        return _told(row, by_name, half)
    before = layers[-1] if layers else None
    if before is not None:
        found = _after(row, before, following, half)
        if found is not None:
            return found
    return _alone(row, following, half)


def _told(row: Row, by_name: dict[str, Layer], half: bool) -> Layer:
    """Link a row to the sources that its list names."""
    assert row.sources is not None
    known = [by_name[name] for name in row.sources if name in by_name]
    reads = tuple(name if name in by_name else "" for name in row.sources)
    for source in known:
        if source.row.filters != row.channels:
            row.place.refuse(
                f"{row.name} must read {row.channels} channels, and {source.row.name} has "
                f"{source.row.filters}: correct one of them."
            )
    if not known:
        return replace(_alone(row, None, half), reads=reads)
    source = known[0]
    if any(one.out != source.out for one in known) or row.out is None:
        row.place.refuse(f"{row.name} must add tensors of one shape: correct its sources.")
    if row.size is not None and row.size != source.out:
        row.place.refuse(
            f"{row.name} must read {row.size}, and {source.row.name} has {source.out}."
        )
    pads = row.pads or _between(row, source.out, row.out)
    if pads is None or _output(row, source.out, pads) != row.out:
        made = (
            "no padding does" if row.pads is None else f"not {_output(row, source.out, row.pads)}"
        )
        row.place.refuse(
            f"{row.name} must make {row.out} of the {source.out} that {source.row.name} has, "
            f"{made}: correct its loops or its padding."
        )
    return Layer(row=row, size=source.out, out=row.out, pads=pads, reads=reads)


def _after(row: Row, before: Layer, following: Row | None, half: bool) -> Layer | None:
    """Link a row to the one before it, where its shape allows."""
    if row.op == "depthwise" and row.channels == 1:
        row = replace(row, channels=before.row.filters, filters=before.row.filters)
    if row.channels != before.row.filters:
        return None
    reads = (before.row.name,)
    if row.size is None:
        assert row.out is not None
        pads = row.pads or _between(row, before.out, row.out)
        if pads is None or _output(row, before.out, pads) != row.out:
            return None
        return Layer(row=row, size=before.out, out=row.out, pads=pads, reads=reads)
    if row.size == before.out:
        return replace(_sized(row, row.size, following, half), reads=reads)
    inner = _without_padding(row)
    if inner == before.out and row.pads is None:  # its size holds its padding
        pads = _halves(row)
        return Layer(row=row, size=inner, out=_output(row, inner, pads), pads=pads, reads=reads)
    return None


def _alone(row: Row, following: Row | None, half: bool) -> Layer:
    """Give a row an input of its own."""
    if row.op == "depthwise" and row.channels == 1 and following is not None:
        row = replace(row, channels=following.channels, filters=following.channels)
    if row.size is not None:
        return _sized(row, row.size, following, half)
    assert row.out is not None
    whole = (row.out[0] * row.strides[0], row.out[1] * row.strides[1])
    pads = row.pads or _halves(row)
    if row.pads is None and _fits(row, whole, pads) and _output(row, whole, pads) == row.out:
        return Layer(row=row, size=whole, out=row.out, pads=pads, reads=("",))
    pads = row.pads or ((0, 0), (0, 0))
    size = tuple(
        (out - 1) * stride + (window - 1) * dilation + 1 - sum(pair)
        for out, stride, window, dilation, pair in zip(
            row.out, row.strides, row.window, row.dilation, pads, strict=True
        )
    )
    if min(size) < 1:
        row.place.refuse(f"{row.name} must have an input; padding of {pads} leaves none.")
    return Layer(row=row, size=(size[0], size[1]), out=row.out, pads=pads, reads=("",))


def _sized(row: Row, size: Size, following: Row | None, half: bool) -> Layer:
    """Choose the padding of a row whose input's size is known."""
    if row.out is not None:  # a product
        return Layer(row=row, size=size, out=row.out, pads=((0, 0), (0, 0)), reads=("",))
    if row.pads is not None:
        return Layer(
            row=row, size=size, out=_output(row, size, row.pads), pads=row.pads, reads=("",)
        )
    for pads in _choices(row, size, half):
        out = _output(row, size, pads)
        if following is not None and _meets(row, out, following):
            return Layer(row=row, size=size, out=out, pads=pads, reads=("",))
    pads = next(_choices(row, size, half))
    return Layer(row=row, size=size, out=_output(row, size, pads), pads=pads, reads=("",))


def _meets(row: Row, out: Size, following: Row) -> bool:
    """Return whether an output is what the following row reads, its padding in it or not."""
    if following.op != "depthwise" and following.channels != row.filters:
        return False
    return following.size == out or (
        following.pads is None and following.size is not None and _without_padding(following) == out
    )


def _sizes_are_unpadded(rows: Sequence[Row]) -> bool:
    """Return whether more layers meet with half a window of padding than with none."""
    votes = 0
    for row, following in zip(rows, rows[1:], strict=False):
        if row.size is None or row.out is not None or max(row.window) == 1:
            continue
        for pads, vote in ((_halves(row), 1), (((0, 0), (0, 0)), -1)):
            if _fits(row, row.size, pads) and _meets(row, _output(row, row.size, pads), following):
                votes += vote
    return votes > 0


def _choices(row: Row, size: Size, half: bool) -> Iterator[Pads]:
    """Yield paddings, the likeliest first: half the window or none, then TensorFlow's SAME."""
    none: Pads = ((0, 0), (0, 0))
    same = tuple(
        same_padding(length, window, stride, dilation)
        for length, window, stride, dilation in zip(
            size, row.window, row.strides, row.dilation, strict=True
        )
    )
    ordered = (_halves(row), none) if half else (none, _halves(row))
    fitting = [pads for pads in (*ordered, (same[0], same[1])) if _fits(row, size, pads)]
    if not fitting:
        row.place.refuse(
            f"{row.name} must have a window that fits its input, not {row.window} over {size}: "
            "correct it."
        )
    yield from fitting


def _between(row: Row, size: Size, out: Size) -> Pads | None:
    """Return padding that makes one size of another: half the window if that does, or the least."""
    halves = _halves(row)
    if _fits(row, size, halves) and _output(row, size, halves) == out:
        return halves
    found = []
    for length, wanted, window, stride, dilation in zip(
        size, out, row.window, row.strides, row.dilation, strict=True
    ):
        reach = (window - 1) * dilation + 1
        total = max((wanted - 1) * stride + reach - length, 0)
        before = total // 2
        if total - before >= reach or (length + total - reach) // stride + 1 != wanted:
            return None
        found.append((before, total - before))
    return (found[0], found[1])


def _halves(row: Row) -> Pads:
    down, right = (
        (window - 1) * dilation // 2
        for window, dilation in zip(row.window, row.dilation, strict=True)
    )
    return ((down, down), (right, right))


def _without_padding(row: Row) -> Size | None:
    if row.size is None or max(row.window) == 1:
        return None
    (down, _), (right, _) = _halves(row)
    return (row.size[0] - 2 * down, row.size[1] - 2 * right)


def _fits(row: Row, size: Size, pads: Pads) -> bool:
    return all(
        length + sum(pair) >= (window - 1) * dilation + 1
        for length, window, dilation, pair in zip(size, row.window, row.dilation, pads, strict=True)
    )


def _output(row: Row, size: Size, pads: Pads) -> Size:
    try:
        height, width = (
            window_output(length, window, stride, pair, dilation)
            for length, window, stride, pair, dilation in zip(
                size, row.window, row.strides, pads, row.dilation, strict=True
            )
        )
    except ModelError as error:
        row.place.refuse(f"{row.name}: {error}")
    return height, width
