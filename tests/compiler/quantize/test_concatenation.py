"""What is concatenated has the scale of the whole, where it can."""

from __future__ import annotations

import numpy as np

from vdla.compiler.graph import Graph
from vdla.compiler.quantize import quantize
from vdla.compiler.quantize.concatenation import share_ranges
from vdla.compiler.quantize.ranges import Range

from .networks import RELU, FloatDraft, images

NARROW, WIDE = Range(0.0, 1.0), Range(-2.0, 6.0)
SHAPE = (1, 5, 6, 4)


def joined(net: FloatDraft, name: str, *parts: str) -> str:
    channels = sum(net.tensors[part].shape[3] for part in parts)
    return net.node(name, "concat", parts, (*SHAPE[:3], channels), {"axis": 3})


def ranges_of(graph: Graph, wide: str) -> dict[str, Range]:
    computed = [t.name for t in graph.tensors.values() if not t.is_constant]
    return {name: WIDE if name == wide else NARROW for name in computed}


def test_parts_of_parts_have_the_range_of_the_whole() -> None:
    net = FloatDraft(SHAPE)
    inner = joined(net, "inner", net.conv("a", "input", 4), net.conv("b", "input", 4))
    whole = joined(net, "whole", inner, net.conv("c", "input", 4))
    graph = net.finish(net.conv("last", whole, 2))
    shared = share_ranges(graph, ranges_of(graph, "whole.out"))
    wide = {"a.out", "b.out", "c.out", "inner.out", "whole.out"}
    assert {name for name, span in shared.items() if span == WIDE} == wide
    assert shared["input"] == shared["last.out"] == NARROW


def test_a_part_that_others_read_loses_two_bits_at_most() -> None:
    for width, taken in ((4.0, True), (4.5, False)):
        net = FloatDraft(SHAPE)
        a = net.conv("a", "input", 4)
        whole = joined(net, "whole", a, net.conv("b", "input", 4))
        graph = net.finish(net.conv("last", whole, 2), net.conv("other", a, 2))
        spans = {**ranges_of(graph, ""), "whole.out": Range(0.0, width)}
        shared = share_ranges(graph, spans)
        assert (shared["a.out"] == Range(0.0, width)) == taken
        assert shared["b.out"] == Range(0.0, width)


def test_a_pool_hands_the_range_on_to_what_it_reads_alone() -> None:
    attrs = {"clip": (-np.inf, np.inf), "padding": ((0, 0), (0, 0)), "strides": (1, 1)}
    for shared_input in (False, True):
        net = FloatDraft(SHAPE)
        a = net.conv("a", "input", 4)
        pool = net.node("pool", "max_pool2d", (a,), SHAPE, {**attrs, "window": (1, 1)})
        other = net.conv("b", a if shared_input else "input", 4)
        graph = net.finish(net.conv("last", joined(net, "whole", pool, other), 2))
        shared = share_ranges(graph, ranges_of(graph, "whole.out"))
        assert (shared["a.out"] == WIDE) is not shared_input
        assert shared["b.out"] == WIDE


def test_an_input_keeps_its_range() -> None:
    net = FloatDraft(SHAPE)
    graph = net.finish(joined(net, "whole", "input", net.conv("a", "input", 4)))
    shared = share_ranges(graph, ranges_of(graph, "whole.out"))
    assert (shared["input"], shared["a.out"]) == (NARROW, WIDE)


def test_a_quantized_concatenation_moves_integers() -> None:
    net = FloatDraft(SHAPE)
    a, b = net.conv("a", "input", 4, clip=RELU, gains=4.0), net.conv("b", "input", 4)
    graph = net.finish(net.conv("last", joined(net, "whole", a, b), 2))
    found = quantize(graph, images(graph, 4), report=False).graph
    concat = found.node("whole")
    output = found.output_tensor(concat)
    for tensor in found.input_tensors(concat):
        assert tensor.quant.same_as(output.quant)
    zero = int(output.quant.zero_point[0])
    assert found.node("a").attrs["clip"] == (zero, 127)  # ReLU at the whole's zero point
