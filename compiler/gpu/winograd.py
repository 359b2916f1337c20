"""Winograd's convolutions as three kernels: images transformed, products, and sums back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vdla.compiler import te
from vdla.compiler.cpu.define import define
from vdla.compiler.cpu.define.site import Array, Constants, Site
from vdla.compiler.cpu.define.windows import finished
from vdla.compiler.cpu.winograd import Algorithm, combined, takes_winograd, transformed_weights
from vdla.compiler.graph import Graph, Node
from vdla.compiler.targets.gpu import Kernel, build_kernel
from vdla.compiler.te import Expr, IterVar, Stage, Tensor, all_of, reduce_axis, select, sum_over

from .part import Part, composed_part
from .product import default_product_tile, schedule_product

__all__ = ["WinogradPart", "takes_winograd_kernels", "winograd_kernels", "winograd_part"]

_CHANNELS, _TILES = 32, 4
"""Threads of a block: channels, whose elements lie side by side, and tiles of the image."""


@dataclass(frozen=True, eq=False)
class WinogradPart(Part):
    """A convolution and what follows on its elements, by what its three kernels compute.

    Attributes
    ----------
    image, sums : te.Tensor
        What the first two kernels write; the output is the third one's.
    moved, products : te.Tensor
        Placeholders that stand for the two where the next kernel reads them.
    between : tuple of te.Tensor
        What the third kernel keeps in registers.
    tile : int
        Rows and columns of the output that a tile has.
    """

    image: Tensor
    sums: Tensor
    moved: Tensor
    products: Tensor
    between: tuple[Tensor, ...]
    tile: int


def takes_winograd_kernels(graph: Graph, node: Node) -> bool:
    """Tell whether a node is a convolution that Winograd's algorithms compute."""
    moving = [t for t in graph.input_tensors(node) if not t.is_constant]
    operands = [te.placeholder(t.shape, str(t.dtype), t.name) for t in moving]
    return takes_winograd(Site(graph, node, operands), ("float16", "float32"))


def winograd_part(graph: Graph, nodes: tuple[Node, ...], by: Algorithm) -> WinogradPart:
    """Return a convolution by Winograd's algorithm, and operators on its elements as they are.

    With p a tile of t x t outputs, of all images in a row, and B, G and A Winograd's matrices::

        image[i, j, p, c] = (B' d B)[i, j], d the pixels of channel c that p reads
        sums[i, j, p, o] = sum(image[i, j, p, c] * weight[i, j, c, o] for c)
        out[n, y, x, o] = (A' m A)[y % t, x % t], m the sums of o and its tile

    Weights are transformed when the network is compiled. All between is float32, whether the
    convolution is of float32 or of float16.

    Parameters
    ----------
    graph : Graph
    nodes : tuple of Node
        The first is a convolution that `takes_winograd_kernels` accepts.
    by : Algorithm
    """
    constants = Constants()
    found: list[Tensor] = []
    between: list[Tensor] = []

    def defined(node: Node, operands: list[Tensor]) -> Tensor:
        if node is not nodes[0]:
            definition = define(graph, node, operands)
            for given, array in definition.constants.items():
                constants.bind(given, array)
            return definition.output
        site = Site(graph, node, operands, constants)
        image = _image(site, by)
        moved = te.placeholder(image.shape, "float32", site.named("moved"))
        sums = _sums(site, moved, by)
        products = te.placeholder(sums.shape, "float32", site.named("products"))
        found.extend((image, sums, moved, products))
        between.extend(_back(site, products, by))
        return _output(site, between[-1], by)

    part = composed_part(graph, nodes, defined, constants)
    image, sums, moved, products = found
    return WinogradPart(
        part.nodes,
        part.inputs,
        part.constants,
        part.output,
        image,
        sums,
        moved,
        products,
        tuple(between),
        by.tile,
    )


def winograd_kernels(
    part: WinogradPart, name: str
) -> tuple[tuple[Kernel, tuple[Tensor, ...]], ...]:
    """Return the three kernels in order, each with the tensors that it is given.

    Parameters
    ----------
    part : WinogradPart
    name : str
        Of the kernels, which are numbered.

    Raises
    ------
    LoweringError
        A kernel cannot be made.
    """
    stands_for = {part.moved: part.image, part.products: part.sums}
    schedules = (_of_image(part.image), _of_sums(part.sums), _of_output(part))
    found = []
    for number, schedule in enumerate(schedules):
        read = {tensor for stage in schedule.stages for tensor in stage.reads()}
        known = (*part.inputs, *part.constants, part.moved, part.products)
        given = (*(tensor for tensor in known if tensor in read), *schedule.outputs)
        kernel = build_kernel(f"{name}_{number}", schedule, given)
        found.append((kernel, tuple(stands_for.get(tensor, tensor) for tensor in given)))
    return tuple(found)


def _image(site: Site, by: Algorithm) -> Tensor:
    x, (rows, columns) = site.input(0), by.tiles(site)
    batch, height, width, depth = x.shape
    (top, _), (left, _) = site.attrs["padding"]
    size, read, tiles = by.tile, by.read, rows * columns

    def pixel(a: Expr, b: Expr, p: Expr, c: Expr) -> Expr:
        y = p % tiles // columns * size + a - top
        z = p % columns * size + b - left
        inside = all_of(y.ge(0), y.lt(height), z.ge(0), z.lt(width))
        return select(inside, x[p // tiles, y, z, c].astype("float32"), 0.0)

    shape = (read, read, batch * tiles, depth)
    pixels = site.compute(shape, pixel, "pixels")
    half = site.compute(
        shape,
        lambda i, b, p, c: combined(i + 0, by.of_image, lambda a: pixels[a, b, p, c]),
        "half",
    )
    return site.compute(
        shape,
        lambda i, j, p, c: combined(j + 0, by.of_image, lambda b: half[i, b, p, c]),
        "image",
    )


def _sums(site: Site, moved: Tensor, by: Algorithm) -> Tensor:
    data = site.value(1)
    assert data is not None
    read, _, tiles, depth = moved.shape
    outputs = data.shape[0]
    shape = (read, read, depth, outputs)

    def transformed() -> Array:
        return transformed_weights(data, by, depth, outputs).reshape(shape)

    weight = site.made_later(shape, "float32", site.tensors[1].name, transformed)
    k = reduce_axis(depth, "k")
    return site.compute(
        (read, read, tiles, outputs),
        lambda i, j, p, o: sum_over(moved[i, j, p, k] * weight[i, j, k, o], k),
        "sums",
    )


def _back(site: Site, products: Tensor, by: Algorithm) -> tuple[Tensor, Tensor]:
    size = by.tile
    read, _, tiles, outputs = products.shape
    back = site.compute(
        (size, read, tiles, outputs),
        lambda r, j, p, o: combined(r + 0, by.of_sums, lambda i: products[i, j, p, o]),
        "back",
    )
    total = site.compute(
        (size, size, tiles, outputs),
        lambda r, q, p, o: combined(q + 0, by.of_sums, lambda j: back[r, j, p, o]),
        "tile",
    )
    return back, total


def _output(site: Site, total: Tensor, by: Algorithm) -> Tensor:
    (rows, columns), size = by.tiles(site), by.tile
    finish = finished(site, (1, 2, 3), 0)

    def element(n: Expr, h: Expr, w: Expr, o: Expr) -> Expr:
        p = n * (rows * columns) + h // size * columns + w // size
        return finish(total[h % size, w % size, p, o], o)

    return site.compute(site.output.shape, element)


def _of_image(image: Tensor) -> te.Schedule:
    """Transform a tile of a channel in a thread: its pixels and all between lie in registers."""
    schedule = te.create_schedule(image)
    stage = schedule[image]
    i, j, p, c = stage.axis
    p_block, p_thread = stage.split(p, factor=_TILES)
    c_block, c_thread = stage.split(c, factor=_CHANNELS)
    stage.reorder(p_block, c_block, p_thread, c_thread, i, j)
    _bound(stage, (p_block, c_block, p_thread, c_thread))
    _unrolled(stage, (i, j))
    for guest in schedule.stages:
        if guest is not stage:
            _in_registers(guest, stage, c_thread)
    return schedule


def _of_sums(sums: Tensor) -> te.Schedule:
    schedule = te.create_schedule(sums)
    inner = schedule.cache_write(sums, "register")
    read, _, tiles, outputs = sums.shape
    depth = schedule[inner].reads()[0].shape[-1]
    tile = default_product_tile(tiles, outputs, depth, read * read)
    schedule_product(schedule, sums, inner, tile)
    return schedule


def _of_output(part: WinogradPart) -> te.Schedule:
    """Transform a tile of sums back in a thread, and store its elements."""
    schedule = te.create_schedule(part.output)
    own = schedule.cache_read(part.products, "register", [part.between[0]])
    stage = schedule[part.output]
    n, h, w, o = stage.axis
    h_block, h_own = stage.split(h, factor=part.tile)
    w_tile, w_own = stage.split(w, factor=part.tile)
    w_block, w_thread = stage.split(w_tile, factor=_TILES)
    o_block, o_thread = stage.split(o, factor=_CHANNELS)
    stage.reorder(n, h_block, w_block, o_block, w_thread, o_thread, h_own, w_own)
    blocks = stage.fuse(stage.fuse(n, h_block), w_block)
    _bound(stage, (blocks, o_block, w_thread, o_thread))
    _unrolled(stage, (h_own, w_own))
    for guest in schedule.stages:
        if guest.tensor in (own, *part.between):
            _in_registers(guest, stage, o_thread)
        elif guest is not stage:
            guest.compute_inline()
    return schedule


def _bound(stage: Stage, axes: Sequence[IterVar]) -> None:
    places = ("blockIdx.x", "blockIdx.y", "threadIdx.y", "threadIdx.x")
    for axis, place in zip(axes, places, strict=True):
        stage.bind(axis, place)


def _unrolled(stage: Stage, axes: Sequence[IterVar]) -> None:
    for axis in axes:
        stage.unroll(axis)


def _in_registers(stage: Stage, host: Stage, at: IterVar) -> None:
    stage.set_scope("register")
    stage.compute_at(host, at)
    stage.whole_tiles()
    _unrolled(stage, stage.axis)
