"""onnx's own tests of its operators, on the cpu and by the interpreter."""

from __future__ import annotations

import importlib
import re
from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.backend.test.case import node as cases

import vdla
from vdla.compiler.onnx import import_onnx
from vdla.errors import ModelError

# Where the tests of an operator are: a module of `onnx.backend.test.case.node`; and which of their
# inputs say how the operator works, and must be constant.
OPERATORS: dict[str, tuple[int, ...]] = {
    "add": (),
    "averagepool": (),
    "batch_normalization": (1, 2, 3, 4),
    "cast": (),
    "clip": (),
    "concat": (),
    "constant": (),
    "constantofshape": (0,),
    "conv": (),
    "convinteger": (2, 3),
    "convtranspose": (),
    "dequantizelinear": (1, 2),
    "div": (),
    "dropout": (1, 2),
    "equal": (),
    "erf": (),
    "exp": (),
    "expand": (1,),
    "flatten": (),
    "gather": (),
    "gemm": (),
    "globalaveragepool": (),
    "globalmaxpool": (),
    "hardsigmoid": (),
    "hardswish": (),
    "identity": (),
    "leakyrelu": (),
    "log": (),
    "lrn": (),
    "matmul": (),
    "matmulinteger": (2, 3),
    "max": (),
    "maxpool": (),
    "min": (),
    "mul": (),
    "neg": (),
    "pad": (1, 2, 3),
    "pow": (),
    "prelu": (),
    "qlinearconv": (1, 2, 3, 4, 5, 6, 7, 8),
    "qlinearmatmul": (1, 2, 4, 5, 6, 7),
    "quantizelinear": (1, 2),
    "reciprocal": (),
    "reducemax": (1,),
    "reducemean": (1,),
    "reducesum": (1,),
    "relu": (),
    "reshape": (1,),
    "resize": (1, 2, 3),
    "shape": (),
    "sigmoid": (),
    "slice": (1, 2, 3, 4),
    "softmax": (),
    "split": (1,),
    "sqrt": (),
    "squeeze": (1,),
    "sub": (),
    "sum": (),
    "tanh": (),
    "transpose": (),
    "unsqueeze": (1,),
    "upsample": (1,),
    "where": (),
}


# What is refused, by the names of cases, and the words of the refusal.
EMPTY = "at least 1|leave an element|keep the number of elements|Every dimension must be known"
REFUSED: dict[str, str] = {
    # Images have two dimensions.
    r"test_(averagepool|maxpool|convtranspose)_3d.*": "must have 1 or 2 dimensions beside batch",
    # Inference alone.
    r"test_batchnorm_.*training_mode|test_training_dropout.*": "must not be in training mode",
    # Types that numpy has not: 8-bit floats and bfloat16, integers of 4 and of 2 bits.
    r"test_cast_.*(FLOAT8|FLOAT4|BFLOAT16|INT4|INT2).*": "must be between numpy's numbers",
    r"test_(de)?quantizelinear_(e4m3fn|e5m2|float4e2m1|u?int4|u?int2).*": "with one scale, or one",
    # Activations with a scale for each block; for weights these are taken.
    r"test_(de)?quantizelinear_blocked.*": "one scale, or one a channel, not u?int.* in blocks",
    # Strings, sequences, optional values.
    r"test_equal_string.*|test_identity_(opt|sequence)": "must be a tensor of numbers",
    # The places of the maxima, which only unpooling reads.
    r"test_maxpool_with_argmax.*": "indices are not computed",
    # Tensors of no elements.
    r"test_constantofshape_int_shape_zero|test_shape_start_greater_than_end": EMPTY,
    r"test_reduce_(max|sum)_empty_set.*|test_reshape_allowzero_reordered": EMPTY,
    r"test_slice_start_out_of_bounds|test_split_zero_size_splits.*": EMPTY,
}


@cache
def cases_of(operator: str) -> list[Any]:
    """Return the cases that a module of onnx makes when it is imported."""
    first = len(cases._NodeTestCases)
    importlib.import_module(f"{cases.__name__}.{operator}")
    return cases._NodeTestCases[first:]


def as_array(value: Any) -> Any:
    return (
        numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)
    )


def bound(case: Any, inputs: list[Any], constant: tuple[int, ...]) -> tuple[onnx.ModelProto, dict]:
    """Return a case's model with some inputs constant, and the values of the rest."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    del model.graph.input[:]
    given = {}
    for place, (info, value) in enumerate(zip(case.model.graph.input, inputs, strict=True)):
        array = as_array(value)
        if place in constant:
            model.graph.initializer.append(numpy_helper.from_array(array, info.name))
        else:
            made = onnx.helper.make_tensor_value_info(
                info.name, info.type.tensor_type.elem_type, array.shape
            )
            model.graph.input.append(made)
            given[info.name] = array
    return model, given


def check(case: Any, constant: tuple[int, ...]) -> None:
    for inputs, outputs in case.data_sets:
        model, given = bound(case, inputs, constant)
        graph = import_onnx(model)
        network = vdla.compile(graph, cache=False, place={n.name: "cpu" for n in graph.nodes})
        run = network.run(given, device="functional", check=True)
        assert run.bit_exact, run.first_difference
        for info, expected in zip(case.model.graph.output, outputs, strict=True):
            made = run.outputs[info.name]
            wanted = as_array(expected)
            assert made.dtype == wanted.dtype
            np.testing.assert_allclose(made, wanted, rtol=case.rtol, atol=case.atol)


def refusal(case: Any) -> str | None:
    found = [words for pattern, words in REFUSED.items() if re.fullmatch(pattern, case.name)]
    return found[0] if found else None


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the cases divide by zero on purpose
@pytest.mark.parametrize("operator", OPERATORS)
def test_the_cases_of_an_operator_pass(operator: str) -> None:
    made = cases_of(operator)
    assert made
    for case in made:
        places = len(case.model.graph.input)
        # Once with every operand computed, once with all but the first constant, as weights are.
        for constant in {OPERATORS[operator], tuple(range(1, places)) or OPERATORS[operator]}:
            words = refusal(case)
            if words is None:
                check(case, constant)
            else:
                with pytest.raises(ModelError, match=words):
                    check(case, constant)


def test_few_cases_are_refused() -> None:
    every = [case for operator in OPERATORS for case in cases_of(operator)]
    refused = [case.name for case in every if refusal(case) is not None]
    assert len(every) >= 500
    # Of these 55 are casts to and from types that numpy has not.
    assert len(refused) <= 110
    for pattern in REFUSED:
        assert any(re.fullmatch(pattern, name) for name in refused), pattern
