"""What is no model for us is refused with one message that says the rule, the value, the remedy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.compiler.onnx.models import Model, mixed_network
from vdla.compiler.graph import Graph
from vdla.compiler.onnx import import_onnx
from vdla.errors import InputError, ModelError


def relu(shape: tuple[int | str | None, ...], opset: int = 17) -> onnx.ModelProto:
    m = Model(opset)
    return m.finish(m.node("Relu", m.input("x", shape)))


def refused(model: onnx.ModelProto | Path, words: str, **options: object) -> str:
    with pytest.raises(ModelError, match=words) as caught:
        import_onnx(model, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    return message


def test_a_batch_is_one_unless_it_is_bound() -> None:
    for shape in (("N", 3), (None, 3), (1, 3)):
        graph = import_onnx(relu(shape))
        assert graph.tensors["x"].shape == (1, 3)
    assert import_onnx(relu(("N", 3)), bind={"N": 4}).tensors["x"].shape == (4, 3)


def test_other_open_dimensions_must_be_bound() -> None:
    model = relu(("N", 3, "height", None))
    refused(model, r"not: x \(height, \?\)\. Bind named ones")
    refused(model, r"not: x \(\?\)", bind={"height": 8})
    graph = import_onnx(relu(("N", "side", "side")), bind={"side": 5})
    assert graph.tensors["x"].shape == (1, 5, 5)


def test_what_is_bound_must_be_there_and_at_least_one() -> None:
    refused(relu((1, "side")), r"one of the model's \(side\), not sides", bind={"sides": 2})
    refused(relu((1, 2)), r"the model's \(it has none\), not N", bind={"N": 2})
    for size in (0, -3, 2.5, "4", True, None):
        with pytest.raises(InputError, match=rf"'N' must be .* at least 1, not {size!r}: bind"):
            import_onnx(relu(("N", 2)), bind={"N": size})
    with pytest.raises(InputError, match="bind must be sizes by dimension, not 4: give {'N': 4}"):
        import_onnx(relu(("N", 2)), bind=4)


def test_a_dimension_of_nothing_is_refused() -> None:
    for shape in ((0, 3), (2, 0), ("N", 0, 3)):
        shown = ", ".join(map(str, shape))
        refused(relu(shape), rf"at least 1; input 'x' of the model has the shape \({shown}\)\. ")


def test_an_output_that_is_an_input_is_refused() -> None:
    m = Model()
    x = m.input("x", (1, 4))
    refused(m.finish(m.node("Relu", x), x), "An output must be computed; of the model 'x' is an in")


def test_every_unknown_operator_is_listed_with_its_count() -> None:
    m = Model()
    x = m.input("x", (1, 4))
    for op in ("Softsign", "Celu", "Softsign"):
        x = m.node(op, x)
    x = m.node("MyOp", x, domain="my.domain")
    message = refused(m.finish(x), r"holds 4 others \(count\): ")
    assert "Celu (1), Softsign (2), my.domain.MyOp (1). Rewrite" in message


def test_unknown_operators_of_constants_are_computed() -> None:
    m = Model()
    x = m.input("x", (1, 3))
    steps = m.node("Range", *(m.constant(np.float32(v)) for v in (0, 3, 1)))
    graph = import_onnx(m.finish(m.node("Add", x, steps)))
    (constant,) = (t for t in graph.tensors.values() if t.is_constant)
    np.testing.assert_array_equal(constant.data, [0, 1, 2])


@pytest.mark.parametrize(
    ("opset", "remedy"), [(6, "onnx.version_converter"), (99, "Install a newer onnx")]
)
def test_an_opset_out_of_range_is_refused(opset: int, remedy: str) -> None:
    message = refused(relu((1, 2), opset), rf"must be 7 to \d+, not {opset}")
    assert remedy in message


@pytest.mark.parametrize(
    "raw", [b"", b"TFL3TFL3", b"\x08\x08", "not a model".encode("utf-16"), bytes(range(256)) * 9]
)
def test_a_file_of_another_kind_is_refused(raw: bytes, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(raw)
    refused(path, rf"must hold a model with a graph and an opset; .*net.onnx \({len(raw)} bytes\)")


def test_an_absent_file_is_refused(tmp_path: Path) -> None:
    refused(tmp_path / "absent.onnx", "must be a readable file, not .*absent.onnx: No such file")


def test_a_file_cut_short_is_refused(tmp_path: Path) -> None:
    whole = mixed_network().SerializeToString()
    path = tmp_path / "net.onnx"
    for length in range(8, len(whole), len(whole) // 40):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelError):
            import_onnx(path)


def test_external_data_is_read_and_missed_by_name(tmp_path: Path) -> None:
    model, path = mixed_network(), tmp_path / "net.onnx"
    expected = import_onnx(model)
    onnx.save(model, path, save_as_external_data=True, location="net.data", size_threshold=0)
    assert_same(import_onnx(path), expected)
    (tmp_path / "net.data").unlink()
    refused(path, r"must lie beside it; .*net.onnx wants net.data")


def assert_same(one: Graph, other: Graph) -> None:
    assert [(n.op, n.inputs) for n in one.nodes] == [(n.op, n.inputs) for n in other.nodes]
    for name, tensor in one.tensors.items():
        if tensor.data is not None:
            np.testing.assert_array_equal(tensor.data, other.tensors[name].data)


def test_weights_that_are_no_numbers_are_refused() -> None:
    m = Model()
    weights = np.array([1, np.nan, np.nan, np.inf], np.float32)
    model = m.finish(m.node("Mul", m.input("x", (1, 4)), m.constant(weights, "w")))
    refused(model, r"must be numbers; 'w' of the model holds 2 NaN in 4 elements")


def test_an_edge_to_nothing_is_refused() -> None:
    m = Model()
    y = m.node("Add", m.input("x", (1, 4)), "nowhere")
    refused(m.finish(y), r"have none: 'nowhere' \(read by Add 'n0' \(node 0\)\)")
    m = Model()
    m.input("x", (1, 4))
    refused(m.finish("y"), r"'y' \(read by the graph's outputs\)")


def test_a_cycle_is_refused() -> None:
    nodes = [
        helper.make_node("Add", ["x", "b"], ["a"], "one"),
        helper.make_node("Relu", ["a"], ["b"], "two"),
    ]
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4))
    output = helper.make_tensor_value_info("b", TensorProto.FLOAT, None)
    model = helper.make_model(helper.make_graph(nodes, "net", [value], [output]))
    refused(model, r"cycle; .* Add 'one' \(node 0\), Relu 'two' \(node 1\)")


def test_nodes_out_of_order_are_sorted() -> None:
    m = Model()
    x = m.node("Exp", m.node("Neg", m.input("x", (1, 4))))
    m.nodes.reverse()
    assert [n.op for n in import_onnx(m.finish(x)).nodes] == ["sub", "exp"]


def test_two_sources_of_one_value_are_refused() -> None:
    m = Model()
    y = m.node("Relu", m.input("x", (1, 4)))
    m.nodes.append(helper.make_node("Neg", ["x"], [y]))
    refused(m.finish(y), r"must have one source; 'relu0_0' of the model has 2")


def test_what_must_be_constant_is_named() -> None:
    m = Model()
    shape = m.input("shape", (2,), TensorProto.INT64)
    y = m.node("Reshape", m.input("x", (1, 4)), shape)
    refused(m.finish(y), r"Reshape 'n0' \(node 0\): its shape must be constant; 'shape'")


def test_three_dimensional_images_are_refused_by_node() -> None:
    m = Model()
    y = m.node("Conv", m.input("x", (1, 1, 4, 4, 4)), m.drawn(1, 1, 3, 3, 3))
    refused(m.finish(y), r"Conv 'n0' \(node 0\): images and filters must have 1 or 2 dimensions")


def test_local_functions_are_inlined() -> None:
    inner = [helper.make_node("Relu", ["a"], ["t"]), helper.make_node("Neg", ["t"], ["b"])]
    opsets = [helper.make_opsetid("", 17)]
    function = helper.make_function("local", "ReluNeg", ["a"], ["b"], inner, opsets)
    m = Model()
    y = m.node("ReluNeg", m.input("x", (1, 4)), domain="local")
    model = m.finish(y)
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid("local", 1))
    assert [n.op for n in import_onnx(model).nodes] == ["relu", "sub"]


def test_a_type_that_is_none_is_refused_by_node() -> None:
    m = Model()
    model = m.finish(m.node("Cast", m.input("x", (1, 3, 8, 8)), to=99))
    refused(model, "Cast 'n0'.*its inputs or attributes are not ONNX's")


def test_a_bias_of_another_length_is_refused_by_node() -> None:
    m = Model()
    x = m.input("x", (1, 3, 8, 8))
    refused(m.finish(m.node("Conv", x, m.drawn(4, 3, 3, 3), m.drawn(7))), "Conv")


def test_constants_that_are_no_numbers_are_refused_wherever_they_stand() -> None:
    m = Model()
    x = m.input("x", (1, 3))
    constant = m.node("Constant", value_floats=[1.0, float("nan"), 2.0])
    refused(m.finish(m.node("Mul", x, constant)), "Constants must be numbers; .* holds NaN")


def test_sizes_beyond_all_memory_are_refused() -> None:
    refused(relu((1, 3, 1 << 20, 1 << 20)), "at most 1,073,741,824 elements; 'x' has shape")
