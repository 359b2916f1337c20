"""From an operator of the graph to a kernel: its definition, and its template's schedule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

from vdla.compiler import te
from vdla.compiler.cpu.define.site import Array, Site
from vdla.compiler.graph import Graph, Node
from vdla.compiler.targets.gpu import Kernel, build_kernel
from vdla.compiler.targets.gpu.matrices import SIDE
from vdla.compiler.te.expr import Const, Reduce
from vdla.errors import LoweringError

from .byte_rows import define_in_rows, takes_rows
from .convolution import schedule_convolution
from .convolution_tiles import ConvolutionTile, default_convolution_tile, default_depthwise_tile
from .dots import dot_of
from .matrix import default_matrix_tile, schedule_matrices
from .part import Part, part_of
from .product import default_product_tile, schedule_product
from .rows import Product, product_of
from .tiles import Tile, in_one_piece
from .words import define_in_words, has_bytes, takes_words

__all__ = [
    "OPERATORS",
    "OperatorKernel",
    "default_tile",
    "operator_kernel",
    "takes_tiles",
    "terms_of",
    "tiled_definition",
    "tiled_kernel",
    "tiled_part",
    "tiled_schedule",
    "warp_product",
]

OPERATORS = ("conv2d", "dense", "depthwise_conv2d", "matmul")
"""What has a template."""
_LEAST = SIDE // 2
"""Rows and columns from which on a product is one for warps; below, most of a tile were padding."""


@dataclass(frozen=True)
class OperatorKernel:
    """A kernel, and what it is given.

    Attributes
    ----------
    kernel : Kernel
        Takes the inputs, then the constants, then the output.
    inputs : tuple of str
        The graph's tensors.
    constants : mapping of str to array
        By name, in order: weights as the kernel reads them, biases.
    """

    kernel: Kernel
    inputs: tuple[str, ...]
    constants: Mapping[str, Array]


def operator_kernel(graph: Graph, node: Node, *, matrices: bool = False) -> OperatorKernel:
    """Return the kernel of an operator, by its definition and a schedule for it.

    Definitions are those that the processor's back end has.

    Parameters
    ----------
    graph : Graph
    node : Node
        Of the graph.
    matrices : bool
        Whether warps may multiply matrices, in float16 or 8-bit integers: for CUDA, from compute
        capability 7.0 on, or 7.2.

    Raises
    ------
    LoweringError
        There is no template of the operator, or not for its shapes.
    """
    if node.op not in OPERATORS:
        raise LoweringError(
            f"An operator that has a template must be one of {', '.join(OPERATORS)}, and node "
            f"{node.name!r} is {node.op}: compile its network, which takes others as well."
        )
    part = tiled_part(graph, (node,), matrices=matrices)
    kernel, tensors = tiled_kernel(graph, part, node.name, matrices=matrices)
    constants = {t.name: array for t, array in part.constants.items() if t in tensors}
    return OperatorKernel(kernel, tuple(part.inputs.values()), constants)


def tiled_kernel(
    graph: Graph,
    part: Part,
    name: str,
    tile: Tile | None = None,
    *,
    matrices: bool = False,
    virtual: bool = True,
) -> tuple[Kernel, tuple[te.Tensor, ...]]:
    """Return the kernel of a part by its head's template, and the tensors that it is given.

    Parameters
    ----------
    graph : Graph
    part : Part
        Of the graph: an operator, and what is computed on its tile.
    name : str
        The kernel's.
    tile : Tile, optional
        How it is shared out; by rules if it is left out.
    matrices : bool
        Whether warps may multiply matrices, where it is a product that they take, by tiles of
        their own.
    virtual : bool
        Whether there may be virtual threads; without, a thread's elements lie in one piece.

    Raises
    ------
    LoweringError
        There is no template for the head's shapes, or no kernel can be made of it.
    """
    product = warp_product(part) if matrices else None
    if product is not None:
        held = default_matrix_tile(product.rows, product.columns)
        schedule, output = schedule_matrices(product, held), product.output
    else:
        output = part.output
        schedule = tiled_schedule(graph, part.nodes[0], output, tile, virtual=virtual)
    read = {tensor for stage in schedule.stages for tensor in stage.reads()}
    given = [tensor for tensor in (*part.inputs, *part.constants) if tensor in read]
    return build_kernel(name, schedule, (*given, output)), (*given, part.output)


def takes_tiles(graph: Graph, node: Node) -> bool:
    """Tell whether there is a template of an operator, for its shapes."""
    if node.op not in OPERATORS or len(set(node.inputs[:2])) < 2:
        return False
    x, weight, *_ = (tensor.shape for tensor in graph.input_tensors(node))
    output = graph.output_tensor(node).shape
    if node.op in ("dense", "matmul"):
        return not _odd_matrices(node, (x, weight, output))
    try:
        default_tile(graph, node, weight[-1])
    except LoweringError:
        return False
    return True


def tiled_part(graph: Graph, nodes: tuple[Node, ...], *, matrices: bool = False) -> Part:
    """Return operators as the first one's template wants them, or as usual.

    Parameters
    ----------
    graph : Graph
    nodes : tuple of Node
        Of the graph.
    matrices : bool
        Whether warps may multiply matrices: 8-bit integers are laid out for that then, where they
        are a product that warps take.

    Raises
    ------
    LoweringError
        An operator has no definition for its tensors.
    """
    head = nodes[0]
    if matrices and takes_tiles(graph, head) and has_bytes(graph, head):
        rows = takes_rows(graph, head)
        part = part_of(graph, nodes, define_in_rows if rows else None)
        if warp_product(part) is not None:
            return part
    return part_of(graph, nodes, tiled_definition(graph, head))


def warp_product(part: Part) -> Product | None:
    """Return a part as a product that warps take; None where it is none, or too small."""
    product = product_of(part.output)
    if product is None or min(product.rows, product.columns) < _LEAST:
        return None
    return product


def tiled_definition(graph: Graph, node: Node) -> Callable[[Site], te.Tensor] | None:
    """Return the definition of an operator that its template wants; None where it is the usual."""
    words = takes_tiles(graph, node) and takes_words(graph, node)
    return define_in_words if words else None


def tiled_schedule(
    graph: Graph, node: Node, output: te.Tensor, tile: Tile | None = None, *, virtual: bool = True
) -> te.Schedule:
    """Return the schedule of an operator by its template, and of what is computed on its tile.

    Parameters
    ----------
    graph : Graph
    node : Node
        Of the graph.
    output : te.Tensor
        The operator's, or what operators on each element alone make of that.
    tile : Tile, optional
        How it is shared out; by rules if it is left out.
    virtual : bool
        Whether there may be virtual threads.

    Raises
    ------
    LoweringError
        There is no template for its shapes.
    """
    schedule = te.create_schedule(output)
    reductions = [stage.tensor for stage in schedule.stages if isinstance(stage.body, Reduce)]
    (sums,) = reductions
    if sums is output:
        sums = schedule.cache_write(output, "register")
    x, weight, *_ = graph.input_tensors(node)
    if len(schedule[sums].reads()) != 2:
        raise LoweringError(
            f"A product on a GPU must be of two tensors, and node {node.name!r} multiplies one by "
            "itself: leave it on the processor."
        )
    if node.op in ("dense", "matmul"):
        _check_matrices(node, (x.shape, weight.shape, output.shape))
    tile = tile or default_tile(graph, node, terms_of(schedule[sums]))
    tile = tile if virtual else in_one_piece(tile)
    if isinstance(tile, ConvolutionTile):
        schedule_convolution(schedule, output, sums, tile)
    else:
        schedule_product(schedule, output, sums, tile)
    for stage in schedule.stages:
        if stage.attach is None and stage.tensor is not output:
            stage.compute_inline()
    return schedule


def default_tile(graph: Graph, node: Node, terms: int) -> Tile:
    """Return how an operator is shared out by rules.

    Parameters
    ----------
    graph : Graph
    node : Node
        Of the graph, with a template.
    terms : int
        As `terms_of` its sums gives them.

    Raises
    ------
    LoweringError
        No tile fits.
    """
    x, weight, *_ = (tensor.shape for tensor in graph.input_tensors(node))
    output = graph.output_tensor(node).shape
    if node.op in ("dense", "matmul"):
        *lead, rows, columns = output
        return default_product_tile(rows, columns, terms, prod(lead))
    if node.op == "depthwise_conv2d":
        return default_depthwise_tile(output, weight, node.attrs)
    window = (*weight[:3], terms)
    return default_convolution_tile(output, window, node.attrs, x[3] // weight[3])


def terms_of(total: te.Stage) -> int:
    """Return the length of the last axis of a reduction; where words are added up, in words."""
    axis = total.reduce_axis[-1 if dot_of(total) is None else -2]
    assert isinstance(axis.extent, Const)
    return axis.extent.value


def _odd_matrices(node: Node, shapes: tuple[tuple[int, ...], ...]) -> bool:
    exact = node.op == "dense"
    return any(len(shape) < 2 or (exact and len(shape) > 2) for shape in shapes)


def _check_matrices(node: Node, shapes: tuple[tuple[int, ...], ...]) -> None:
    if _odd_matrices(node, shapes):
        one = "" if node.op == "dense" else ", one or a batch"
        raise LoweringError(
            f"A {node.op} on a GPU must be of matrices{one}, and "
            f"node {node.name!r} is of shapes {', '.join(str(list(s)) for s in shapes)}: reshape "
            "them, or leave it on the processor."
        )
