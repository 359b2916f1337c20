"""Layer lists become networks: shapes by ONNX's rule, edges where shapes meet, values alive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vdla
from vdla.compiler.graph import Graph
from vdla.compiler.layers import import_layers
from vdla.errors import ModelError

CONV = "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, "


def read(folder: Path, name: str, text: str) -> Graph:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return import_layers(file)


def edges(graph: Graph) -> list[tuple[str, str, str, tuple[int, ...], Any]]:
    return [
        (
            node.name,
            node.op,
            node.inputs[0],
            graph.output_tensor(node).shape[1:],
            node.attrs.get("padding"),
        )
        for node in graph.nodes
    ]


def pads(pad: int) -> tuple[tuple[int, int], tuple[int, int]]:
    return ((pad, pad), (pad, pad))


def test_a_topology_with_the_sizes_of_tensors(tmp_path: Path) -> None:
    text = f"""{CONV}Strides,

    Conv1, 32, 32, 7, 7, 3, 32, 2,
    Conv2_dw, 16, 16, 3, 3, 1, 1, 1,#dw
    Conv3, 16, 16, 1, 1, 32, 64, 1
    Conv4, 16, 16, 3, 3, 64, 128, 2,
    Down, 14, 14, 1, 1, 16, 32, 2,
    Last, 7, 7, 3, 3, 32, 16, 1,
    FC, 1, 1, 1, 1, 1024, 10, 1,
    """
    graph = read(tmp_path, "net.csv", text)
    assert graph.name == "net"
    assert edges(graph) == [
        ("Conv1", "conv2d", "Conv1.input", (16, 16, 32), pads(3)),
        ("Conv2_dw", "depthwise_conv2d", "Conv1.out", (16, 16, 32), pads(1)),
        ("Conv3", "conv2d", "Conv2_dw.out", (16, 16, 64), pads(0)),
        ("Conv4", "conv2d", "Conv3.out", (8, 8, 128), pads(1)),
        ("Down", "conv2d", "Down.input", (7, 7, 32), pads(0)),  # 14 of 1x1 by 2 gives 7
        ("Last", "conv2d", "Down.out", (7, 7, 16), pads(1)),
        ("FC", "conv2d", "FC.input", (1, 1, 10), pads(0)),
    ]
    assert graph.inputs == ("Conv1.input", "Down.input", "FC.input")
    assert graph.outputs == ("Conv4.out", "Last.out", "FC.out")


def test_a_topology_whose_sizes_hold_their_padding(tmp_path: Path) -> None:
    text = f"""{CONV}Strides,
    A, 18, 18, 3, 3, 8, 8, 1,
    B, 18, 18, 3, 3, 8, 16, 1,
    C, 16, 16, 1, 1, 16, 8, 1,
    D, 11, 11, 3, 3, 4, 8, 2,
    """
    assert edges(read(tmp_path, "net.csv", text)) == [
        ("A", "conv2d", "A.input", (16, 16, 8), pads(0)),
        ("B", "conv2d", "A.out", (16, 16, 16), pads(1)),
        ("C", "conv2d", "B.out", (16, 16, 8), pads(0)),
        ("D", "conv2d", "D.input", (5, 5, 8), pads(0)),
    ]


def test_titles_and_misspelt_headers_are_read_by_place(tmp_path: Path) -> None:
    text = """Layer, IFMAP Width, IFMAP Width, Filter Height, Width, Channels, Filter, Strides,
    A title,
    A, 6, 8, 3, 1, 8, 4, 1,
    """
    assert edges(read(tmp_path, "net.csv", text)) == [
        ("A", "conv2d", "A.input", (4, 8, 4), pads(0)),
    ]


def test_padding_and_two_strides_may_be_given(tmp_path: Path) -> None:
    text = f"""{CONV}Stride Height, Stride Width, Padding
    A, 9, 9, 3, 3, 8, 8, 2, 1, 2
    B, 6, 11, 3, 3, 8, 8, 1, 1, 0
    """
    assert edges(read(tmp_path, "net.csv", text)) == [
        ("A", "conv2d", "A.input", (6, 11, 8), pads(2)),
        ("B", "conv2d", "A.out", (4, 9, 8), pads(0)),
    ]


@pytest.mark.parametrize("header", ["Layer, M, N, K,\n", "Layer,K,N,M\n", ""])
def test_products(tmp_path: Path, header: str) -> None:
    rows = "QKT, 12, 20, 8\nPV, 12, 8, 20\nFF, 1, 10, 8\n"
    if "K,N,M" in header:
        rows = "QKT, 8, 20, 12\nPV, 20, 8, 12\nFF, 8, 10, 1\n"
    graph = read(tmp_path, "products.csv", header + rows)
    assert [edge[2:4] for edge in edges(graph)] == [
        ("QKT.input", (12, 1, 20)),
        ("QKT.out", (12, 1, 8)),
        ("FF.input", (1, 1, 10)),
    ]
    assert [graph.macs(node) for node in graph.nodes] == [12 * 20 * 8, 12 * 8 * 20, 80]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: A layer list must hold a layer"),
        (f"{CONV}Strides\nA, 8, 8, 3, x, 4, 4, 1", "line 2: filter width must be .* not 'x'"),
        (f"{CONV}Strides\nA, 8, 8, 3, 3, 4, 4", "line 2: strides must be .* not ''"),
        (f"{CONV}Strides\nA, 8, 8, 3, 3, 0, 4, 1", "line 2: channels must be .* not '0'"),
        (f"{CONV}Strides\n, 8, 8, 3, 3, 4, 4, 1", "line 2: A layer must have a name"),
        (f"{CONV}Strides\nA, 2, 2, 5, 5, 4, 4, 1", None),
        ("Layer, IFMAP Height, Size\nA, 8, 8", "line 2: .*'ifmap width' is not among layer"),
        ("A, 8, 8, 3", None),
        ("A, 8, 8", "line 1: A topology must have 4 columns, .* not 3"),
        (f"{CONV}Strides\nA,8,8,1,1,4,4,1\nA,8,8,1,1,4,4,1", "line 3: .* not A twice"),
    ],
)
def test_what_is_wrong_with_a_topology_is_said(
    tmp_path: Path, text: str, message: str | None
) -> None:
    if message is None:
        assert read(tmp_path, "net.csv", text).nodes
        return
    with pytest.raises(ModelError, match=f"net.csv, {message}"):
        read(tmp_path, "net.csv", text)


TIMELOOP = """
problem:
  version: 0.4
  shape:
    name: CNN-Layer
    dimensions: [C, M, R, S, N, P, Q]
  name: stem
  instance: {C: 3, M: 16, R: 7, S: 7, N: 1, P: 16, Q: 14, Wstride: 2, Hstride: 2}
---
problem:
  instance: {C: 16, M: 32, R: 3, S: 3, P: 16, Q: 14}
---
problem: {C: 32, M: 8, R: 1, S: 1, P: 8, Q: 7, Wstride: 2, Hstride: 2}
---
problem: {instance: {G: 8, C: 1, M: 1, R: 3, S: 3, P: 8, Q: 7}}
---
problem: {instance: {C: 4, M: 8, R: 2, S: 2, P: 5, Q: 5}}
---
problem: {instance: {M: 12, N: 20, K: 8}, name: product}
"""


def test_timeloop_problems(tmp_path: Path) -> None:
    assert edges(read(tmp_path, "net.yaml", TIMELOOP)) == [
        ("stem", "conv2d", "stem.input", (14, 16, 16), pads(3)),
        ("layer2", "conv2d", "stem.out", (14, 16, 32), pads(1)),
        ("layer3", "conv2d", "layer2.out", (7, 8, 8), pads(0)),  # 14 x 16 of 1x1 by 2
        ("layer4", "depthwise_conv2d", "layer3.out", (7, 8, 8), pads(1)),
        ("layer5", "conv2d", "layer5.input", (5, 5, 8), pads(0)),
        ("product", "conv2d", "product.input", (12, 1, 20), pads(0)),
    ]
    graph = import_layers(tmp_path / "net.yaml")
    assert graph.tensors["stem.input"].shape == (1, 28, 32, 3)
    assert graph.tensors["layer5.input"].shape == (1, 6, 6, 4)


def zigzag_layer(number: int, kind: str, equation: str, sizes: str, **more: str) -> str:
    lines = [f"- id: {number}", f"  operator_type: {kind}", f"  equation: {equation}"]
    return "\n".join([*lines, sizes, *(f"  {key}: {value}" for key, value in more.items())]) + "\n"


EQUATION = "O[b][k][oy][ox]+=W[k][c][fy][fx]*I[b][c][iy][ix]"
DEPTHWISE = "O[b][g][oy][ox]+=W[g][fy][fx]*I[b][g][iy][ix]"
POOLING = "O[b][g][oy][ox]+=W[fx][fy]*I[b][g][iy][ix]"
ADDITION = "O[b][g][oy][ox]=W[b][g][oy][ox]+I[b][g][oy][ox]"


def loops(dims: str, sizes: str) -> str:
    return f"  loop_dims: [{dims}]\n  loop_sizes: [{sizes}]"


def relation(stride: int) -> str:
    return f"[ix={stride}*ox+1*fx, iy={stride}*oy+1*fy]"


CONV_LOOPS = "B, K, C, OY, OX, FY, FX"
ZIGZAG = "".join(
    [
        zigzag_layer(
            0,
            "Conv",
            EQUATION,
            loops(CONV_LOOPS, "1, 16, 3, 16, 16, 7, 7"),
            dimension_relations=relation(2),
            operand_source="{I: 0, W: 0}",
        ),
        zigzag_layer(
            1,
            "Pooling",
            POOLING,
            loops("B, G, OY, OX, FX, FY", "1, 16, 8, 8, 3, 3"),
            dimension_relations=relation(2),
            operand_source="{I: 0, W: 1}",
        ),
        zigzag_layer(
            2,
            "Conv",
            EQUATION,
            loops(CONV_LOOPS, "1, 16, 16, 8, 8, 3, 3"),
            dimension_relations=relation(1),
            operand_source="{I: 1, W: 2}",
            padding="[[1, 1], [1, 1]]",
        ),
        zigzag_layer(
            3,
            "Add",
            ADDITION,
            loops("B, G, OY, OX", "1, 16, 8, 8"),
            operand_source="{W: 1, I: 2}",
        ),
        zigzag_layer(
            4,
            "Conv",
            DEPTHWISE,
            loops("B, G, OY, OX, FY, FX", "1, 16, 4, 4, 3, 3"),
            dimension_relations=relation(2),
            operand_source="{I: 3, W: 4}",
        ),
        zigzag_layer(
            5,
            "Pooling",
            POOLING,
            loops("B, G, OY, OX, FX, FY", "1, 16, 1, 1, 4, 4"),
            dimension_relations=relation(1),
            operand_source="{I: 4, W: 5}",
        ),
        zigzag_layer(
            6,
            "Gemm",
            "O[d0][d1]+=I[d0][d2]*W[d2][d1]",
            loops("D0, D1, D2", "6, 20, 12"),
            dimension_relations="[]",
        ),
    ]
)


def test_a_zigzag_workload(tmp_path: Path) -> None:
    graph = read(tmp_path, "net.yaml", ZIGZAG)
    assert edges(graph) == [
        ("layer0", "conv2d", "layer0.input", (16, 16, 16), pads(3)),
        ("layer1", "max_pool2d", "layer0.out", (8, 8, 16), pads(1)),
        ("layer2", "conv2d", "layer1.out", (8, 8, 16), pads(1)),
        ("layer3", "add", "layer1.out", (8, 8, 16), None),
        ("layer4", "depthwise_conv2d", "layer3.out", (4, 4, 16), pads(1)),
        ("layer5", "avg_pool2d", "layer4.out", (1, 1, 16), pads(0)),
        ("layer6", "conv2d", "layer6.input", (6, 1, 20), pads(0)),
    ]
    assert graph.node("layer3").inputs == ("layer1.out", "layer2.out")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "line 1: A layer list must be YAML"),
        ("problem: {instance: {C: 3}}", "line 1: M must be an integer of at least 1, not None"),
        (
            "problem:\n  instance: {C: 3, M: 8, P: 4, Q: four}",
            "line 2: Q must be an integer of at least 1, not 'four'",
        ),
        ("problem: {C: 3, M: 8, P: 4, Q: 4, N: 2}", "line 1: N must be 1, not 2: images are"),
        ("problem: 3", "line 1: A problem must be a table"),
        (
            "problem: {C: 3, M: 8, P: 4, Q: 4, padding: [1]}",
            r"line 1: padding must be a number, or \[\[above, below\]",
        ),
        ("problem: {instance: 3}", "line 1: instance must be a table"),
        (
            "problem: {instance: {C: 3, M: 8, P: 4, Q: 4, WStride: 2}}",
            "line 1: A loop bound must be one of C, G, .*, Wstride, not WStride: correct it",
        ),
        (
            ZIGZAG.replace("{I: 2, W: 2}", "{I: 4, W: 2}").replace("{I: 1, W: 2}", "{I: 4, W: 2}"),
            "A layer must read layers that stand before it, and 2 reads 4: put them in order",
        ),
        (ZIGZAG.replace("id: 1", "id: 0"), "line 8: Layers must have different ids, not 0"),
        (ZIGZAG.replace("1, 16, 3, 16", "1, 16, 3, x"), "line 1: The loop OY must be an integer"),
        (ZIGZAG.replace("+=W[g]", "+W[g]"), "line .*: An equation must be"),
        (ZIGZAG.replace("ix=2*ox+1*fx,", ""), "line 1: dimension_relations must be two"),
        (
            ZIGZAG.replace("1, 16, 8, 8, 3, 3]", "1, 24, 8, 8, 3, 3]", 1),
            "line .*: layer1 must read 24 channels, and layer0 has 16",
        ),
        (
            ZIGZAG.replace("padding: [[1, 1], [1, 1]]", "padding: 0"),
            r"layer2 must make \(8, 8\) of the \(8, 8\) that layer1 has, not \(6, 6\)",
        ),
        (
            ZIGZAG.replace("16, 16, 8, 8, 3, 3", "16, 16, 80, 8, 3, 3"),
            "layer2 must make",
        ),
        (
            ZIGZAG.replace("O[d0][d1]+=I[d0][d2]*W[d2][d1]", "O[d0][d1]+=I[d0][d1]*W[d0][d1]"),
            "line .*: A product must have weights that all rows share",
        ),
    ],
)
def test_what_is_wrong_with_a_yaml_list_is_said(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        read(tmp_path, "net.yaml", text)


def test_a_timeloop_shape_has_strides_where_an_instance_says_nothing(tmp_path: Path) -> None:
    coefficients = "[{name: Wstride, default: 2}, {name: Hstride, default: 2}]"
    shape = f"shape: {{coefficients: {coefficients}, dimensions: [C, M, R, S, N, P, Q]}}"
    bounds = "C: 16, M: 32, R: 3, S: 3, P: 14, Q: 14"
    problem = f"problem: {{{shape}, instance: {{{bounds}}}}}"
    (node,) = read(tmp_path, "t.yaml", problem).nodes
    assert node.attrs["strides"] == (2, 2)
    own = problem.replace("Q: 14", "Q: 14, Wstride: 1, Hstride: 3")
    (node,) = read(tmp_path, "t.yaml", own).nodes
    assert node.attrs["strides"] == (3, 1)


def test_a_list_must_be_readable(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="must be a readable text file"):
        import_layers(tmp_path / "none.csv")
    (tmp_path / "bad.csv").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ModelError, match="must be a readable text file"):
        import_layers(tmp_path / "bad.csv")


@pytest.mark.parametrize(("name", "text"), [("t.yaml", TIMELOOP), ("z.yml", ZIGZAG)])
def test_lists_run_and_their_values_stay_alive(tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    network = vdla.compile(file, config=vdla.TINY)
    source = np.random.default_rng(0)
    inputs = {
        key: source.integers(-128, 128, info.shape, np.int8) for key, info in network.inputs.items()
    }
    run = network.run(inputs, check=True)
    assert run.bit_exact, run.first_difference
    for output in run.outputs.values():
        assert 8 < output.std() < 80
        assert (np.abs(output.astype(int)) == 128).mean() < 0.05
