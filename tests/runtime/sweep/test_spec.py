"""A specification is checked before anything runs."""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from vdla.errors import ConfigError, InputError
from vdla.runtime.sweep import Spec, read_spec
from vdla.runtime.sweep.axes import Span, read_axis
from vdla.runtime.sweep.sampling import points_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[3]


def spec(**changes: Any) -> dict[str, Any]:
    return {"networks": ["digits"], "config": "TINY", **changes}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"networks": []}, r"must name networks, not none: add, for example, networks = \["),
        ({"network": ["digits"]}, "not 'network': what varies belongs under"),
        ({"networks": ["no.tflite"]}, "must be a file that exists, not no.tflite"),
        ({"networks": ["digits", "digits"]}, "must have different names, not digits twice"),
        ({"networks": [3]}, "must be a file, a name or a Graph, not 3"),
        ({"config": []}, r"config must name at least one configuration, not \[\]"),
        ({"config": 3}, "config must be a name or a file, not 3"),
        ({"axes": [1]}, r"axes must be a table, not \[1\]"),
        ({"axes": {"block": [8]}}, "must be a field of a configuration, .* not 'block'"),
        ({"axes": {"core": [{"block": 8}]}}, "the axis core must set fields, .* not 'block'"),
        ({"axes": {"block_in": []}}, r"block_in must hold at least one value, not \[\]"),
        ({"axes": {"block_in": ["8"]}}, "value of block_in must be an integer, not '8'"),
        ({"axes": {"block_in": [True]}}, "value of block_in must be an integer, not True"),
        ({"axes": {"clock_mhz": ["fast"]}}, "value of clock_mhz must be a number, not 'fast'"),
        ({"axes": {"block_in": [8, 8]}}, "block_in must hold each value once, .*8.* twice"),
        ({"axes": {"vthreads": [3]}}, "value of vthreads must be 1 or 2, not 3"),
        ({"axes": {"rank": ["best"]}}, "value of rank must be one of estimate, cycle, not 'best'"),
        ({"axes": {"without": [3]}}, "value of without must be a list of names of passes"),
        ({"axes": {"place": ["cpu"]}}, "value of place must be a table of devices by node"),
        ({"axes": {"name": ["x"]}}, "must be a field of a configuration, .* not 'name'"),
        ({"axes": {"block_in": {"low": 4}}}, "block_in must have low, high, and at most one"),
        ({"axes": {"block_in": {"low": 8, "high": 4}}}, "must go up, not from 8 to 4"),
        ({"axes": {"block_in": {"low": 4, "high": 8}}}, "add step or powers_of_two, or draw"),
        ({"axes": {"block_in": {"low": 4, "high": 8, "step": 0}}}, "must be positive, not 0"),
        (
            {"axes": {"block_in": {"low": 3, "high": 8, "powers_of_two": True}}},
            "powers of two must begin at one, not at 3",
        ),
        ({"axes": {"vthreads": {"low": 1, "high": 2}}}, "must be a list, not from low to high"),
        (
            {"axes": {"inp_depth": [8], "inp_bytes": [2048]}},
            "One axis must set inp_bytes, not both inp_depth and inp_bytes",
        ),
        ({"sample": {"count": 3}, "study": {}}, "must be a sample or a study, not both"),
        ({"sample": {}}, "sample must have a count of points"),
        ({"sample": {"count": 0}}, "count must be an integer of at least 1, not 0"),
        ({"sample": {"count": 3, "method": "sobol"}}, "must be one of random, .*, not 'sobol'"),
        ({"sample": {"number": 3}}, r"\[sample\] must hold count, method, not 'number'"),
        ({"study": {"trials": 3}}, r"study must have objectives, not \[\]"),
        ({"study": {"objectives": ["speed"], "trials": 3}}, "must be one of .*, not 'speed'"),
        ({"study": {"objectives": ["cycles"]}}, "study must have a number of trials"),
        ({"seed": -1}, "seed must be an integer of at least 0, not -1"),
        ({"check": 1}, "check must be true or false, not 1"),
        (
            {"seed": 1 << 63},
            "seed must be at most 9,223,372,036,854,775,807, not 9223372036854775808",
        ),
        ({"networks": ["."]}, "network must be a file or a name, not '.': name one"),
        ({"sample": {"count": 10**9}}, "count must be at most 1,000,000, not 1000000000"),
        (
            {"study": {"objectives": ["cycles", "cycles"], "trials": 3}},
            "must have each objective once, not cycles twice",
        ),
        (
            {"axes": {"block_in": [10**24]}},
            "must be at most 9,223,372,036,854,775,807, not 10{24}:",
        ),
        ({"axes": {"clock_mhz": [math.nan]}}, "value of clock_mhz must be finite, not nan"),
        (
            {"axes": {"clock_mhz": {"low": 1.0, "high": math.inf, "powers_of_two": True}}},
            "value of clock_mhz must be finite, not inf",
        ),
        (
            {"axes": {"block_in": {"low": 8, "high": 16, "powers_of_two": "no"}}},
            "powers_of_two of the axis block_in must be true or false, not 'no'",
        ),
        (
            {"axes": {"clock_mhz": {"low": -1e308, "high": 1e308, "step": 1.0}}},
            "An axis must have at most 1,000,000 values, and clock_mhz has more",
        ),
    ],
)
def test_what_is_wrong_is_said(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_spec(spec(**given))


def test_a_configuration_must_be_known() -> None:
    with pytest.raises(ConfigError, match="must be one of"):
        read_spec(spec(config="TINIEST"))


def test_the_page_s_specifications_are_right() -> None:
    page = (ROOT / "docs" / "sweeps.md").read_text(encoding="utf-8")
    grid, sample, study = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(points_of(parse(grid))) == 32
    assert 20 < len(points_of(parse(grid + sample))) <= 32  # each of the 64 drawn once
    assert parse(grid + study).objectives == ("cycles", "dsp")


def parse(text: str) -> Spec:
    return read_spec(tomllib.loads(text))


def test_a_grid_is_not_endless() -> None:
    axes = {"dram_latency_cycles": {"low": 1, "high": 2000, "step": 1}}
    axes |= {"clock_mhz": {"low": 1, "high": 1000, "step": 1}}
    with pytest.raises(InputError, match="at most 1,000,000 points a network, not 2,000,000"):
        read_spec(spec(axes=axes))


def test_files_are_sought_beside_the_specification(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("block_in = 32\ninp_bytes = 65536\n", encoding="utf-8")
    (tmp_path / "net.tflite").write_bytes(b"")
    file = tmp_path / "spec.toml"
    file.write_text("networks = 'net.tflite'\nconfig = 'mine.toml'\n", encoding="utf-8")
    found = read_spec(file)
    assert found.configs[0].block_in == 32
    assert found.networks == {"net.tflite": tmp_path / "net.tflite"}


@pytest.mark.parametrize("text", ["networks = [", "\xff"])
def test_a_specification_is_toml(tmp_path: Path, text: str) -> None:
    file = tmp_path / "spec.toml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match="A sweep must be"):
        read_spec(file)


def test_a_grid_has_every_combination_in_order() -> None:
    axes = {"block_in": [4, 8], "core": [{"block_out": 4}, {"block_out": 8, "vthreads": 1}]}
    points = points_of(read_spec(spec(axes=axes)))
    assert [
        (p.fields["block_in"], p.fields["block_out"], p.options["vthreads"]) for p in points
    ] == [(4, 4, 2), (4, 8, 1), (8, 4, 2), (8, 8, 1)]


def test_depths_become_bytes_of_the_core_s_shape() -> None:
    axes = {"wgt_depth": 64, "acc_depth": 32, "inp_depth": 16, "uop_depth": 128}
    axes |= {"block_in": 8, "block_out": 4, "batch": 2}
    (point,) = points_of(read_spec(spec(axes=axes)))
    config = point.config()
    assert (config.wgt_bytes, config.acc_bytes) == (64 * 8 * 4, 32 * 2 * 4 * 4)
    assert (config.inp_depth, config.uop_depth, config.acc_depth) == (16, 128, 32)


def test_lists_and_tables_may_be_values_themselves() -> None:
    assert read_axis("without", ["fusion", "join"]).values == ({"without": ["fusion", "join"]},)
    assert len(read_axis("without", [[], ["fusion"]]).values) == 2
    assert read_axis("place", {"conv2d": "cpu"}).values == ({"place": {"conv2d": "cpu"}},)


def test_spans() -> None:
    assert read_axis("clock_mhz", {"low": 50, "high": 200}).values == Span(
        low=50.0, high=200.0, whole=False
    )
    doubled = read_axis("block_in", {"low": 4, "high": 33, "powers_of_two": True}).values
    assert [value["block_in"] for value in doubled] == [4, 8, 16, 32]  # type: ignore[union-attr]
    stepped = read_axis("clock_mhz", {"low": 0.1, "high": 0.3, "step": 0.1}).values
    assert len(stepped) == 3  # type: ignore[arg-type]
    whole = Span(low=3, high=5, whole=True)
    assert [whole.at(part) for part in (0, 0.33, 0.34, 0.99, 1.0)] == [3, 3, 4, 5, 5]


@pytest.mark.parametrize("method", ["random", "latin-hypercube"])
def test_a_sample_follows_from_its_seed(method: str) -> None:
    axes = {"dram_latency_cycles": {"low": 1, "high": 1000}, "vthreads": [1, 2]}
    sample = {"method": method, "count": 20}
    drawn = points_of(read_spec(spec(axes=axes, sample=sample)))
    assert drawn == points_of(read_spec(spec(axes=axes, sample=sample)))
    assert drawn != points_of(read_spec(spec(axes=axes, sample=sample, seed=1)))
    assert len(drawn) == 20


def test_a_latin_hypercube_meets_every_slice_once() -> None:
    axes = {"dram_latency_cycles": {"low": 1, "high": 100}, "axi_outstanding": [1, 2]}
    drawn = points_of(read_spec(spec(axes=axes, sample={"count": 10})))
    slices = sorted((p.fields["dram_latency_cycles"] - 1) // 10 for p in drawn)
    assert slices == list(range(10))
    assert sum(p.fields["axi_outstanding"] == 2 for p in drawn) == 5
