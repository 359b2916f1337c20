from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.configs import MATRIX
from vdla.config import PAPER, PYNQ_Z1, Config, named
from vdla.errors import ConfigError

VTA_DEFAULT = {
    "TARGET": "pynq",
    "LOG_INP_WIDTH": 3,
    "LOG_WGT_WIDTH": 3,
    "LOG_ACC_WIDTH": 5,
    "LOG_BATCH": 0,
    "LOG_BLOCK": 4,
    "LOG_UOP_BUFF_SIZE": 15,
    "LOG_INP_BUFF_SIZE": 15,
    "LOG_WGT_BUFF_SIZE": 18,
    "LOG_ACC_BUFF_SIZE": 17,
}
"""VTA's vta_config.json as it is shipped for the PYNQ."""

REFUSED = [
    ({"block_in": 12}, "block_in must be a positive power of two, not 12."),
    ({"batch": -1}, "batch must be a positive power of two, not -1."),
    ({"block_in": "16"}, "block_in must be an integer, not '16'."),
    ({"axi_data_bits": 64.0}, "axi_data_bits must be an integer, not 64.0."),
    ({"dram_latency_cycles": True}, "dram_latency_cycles must be an integer, not True."),
    ({"name": 5}, "name must be a string, not 5."),
    ({"inp_bits": 4}, "inp_bits must be 8, the width of the GEMM core's operands, not 4."),
    ({"acc_bits": 16}, "acc_bits must be 32, the width of the accumulator, not 16."),
    ({"token_queue_depth": 1}, "token_queue_depth must be a power of two of at least 2, not 1."),
    ({"axi_version": 5}, "axi_version must be 3 or 4, not 5."),
    ({"axi_burst_beats": 32}, "axi_burst_beats must be a power of two of at most 16 on AXI3"),
    (
        {"axi_version": 4, "axi_data_bits": 256, "axi_burst_beats": 256},
        "axi_burst_beats must keep a burst of 32-byte beats within 4096 bytes, not 256.",
    ),
    ({"axi_outstanding": 128}, "axi_outstanding must be a power of two of at most 64, not 128."),
    ({"clock_mhz": float("nan")}, "clock_mhz must be a number in (0, 1000], not nan."),
    ({"clock_mhz": "fast"}, "clock_mhz must be a number in (0, 1000], not 'fast'."),
    ({"dram_latency_cycles": 0}, "dram_latency_cycles must be in 1..65535, not 0."),
    (
        {"dram_bytes_per_cycle": 16},
        "dram_bytes_per_cycle must be 0, for a beat in every cycle, or in 0.125..8, the bytes of a "
        "beat, not 16.",
    ),
    ({"dram_bytes_per_cycle": 0.1}, "dram_bytes_per_cycle must be 0, for a beat in every cycle"),
    ({"dram_bytes_per_cycle": True}, "dram_bytes_per_cycle must be 0, for a beat in every cycle"),
    (
        {"memory_bytes": 5000},
        "memory_bytes must be whole pages of 4096 bytes within the 4294967296 addresses reach, "
        "not 5000.",
    ),
    (
        {"block_in": 128, "block_out": 128},
        "An wgt element must take 4..4096 bytes in memory, not 16384: change batch (1), "
        "block_in (128) or block_out (128).",
    ),
    ({"wgt_bytes": 256}, "wgt_bytes must hold at least two elements of 256 bytes, not 256."),
    (
        {"acc_bytes": 1 << 20},
        "The index widths of a micro-op must sum to at most 32 bits, not 14 (acc) + "
        "14 (inp or acc) + 10 (wgt) = 38: make acc_bytes (1048576), inp_bytes (32768) or "
        "wgt_bytes (262144) smaller.",
    ),
    (
        {"acc_bytes": 256 << 10, "wgt_bytes": 32 << 10},
        "The dst and src factors of an ALU instruction must take at most 44 bits, not 48: make "
        "acc_bytes (262144) or inp_bytes (32768) smaller.",
    ),
    ({"uop_bytes": 64 << 10}, "uop_bytes must be at most 32768 for uop_begin and uop_end to fit"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=lambda value: str(value)[:40])
def test_a_rule_that_is_broken_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match="^" + re.escape(message)):
        Config(**changes)


def test_an_unknown_field_is_answered_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"^Config has no field blocks\. Its fields are: batch, "):
        Config.from_dict({"blocks": 16})
    with pytest.raises(ConfigError, match=r"^Config has no field blocks\. "):
        PYNQ_Z1.replace(blocks=16)


@pytest.mark.parametrize("config", MATRIX, ids=lambda config: config.name)
def test_toml_gives_the_configuration_back(config: Config, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(config.to_toml())
    found = Config.from_toml(tmp_path / "a.toml")
    assert (found, found.name, found.hash) == (config, config.name, config.hash)


def test_toml_may_leave_fields_out(tmp_path: Path) -> None:
    (tmp_path / "half.toml").write_text("wgt_bytes = 131072\n")
    assert Config.from_toml(tmp_path / "half.toml") == Config(wgt_bytes=131072)
    assert Config.from_toml(tmp_path / "half.toml").name == "half"


def test_what_is_no_toml_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("batch = = 1\n")
    with pytest.raises(ConfigError, match=r"^A configuration file must be TOML: .*a\.toml: "):
        Config.from_toml(tmp_path / "a.toml")


def test_vta_s_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "vta_config.json").write_text(json.dumps(VTA_DEFAULT))
    found = Config.from_toml(tmp_path / "vta_config.json")
    assert (found, found.name) == (PYNQ_Z1, "vta_config")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "A VTA configuration must be a JSON object of integers: "),
        ('{"LOG_BLOCK": "x"}', "A VTA configuration must be a JSON object of integers: "),
        ('{"LOG_BLOCK": -1}', "A VTA configuration must be a JSON object of integers: "),
        ('{"TARGET": "pynq"}', "A VTA configuration must hold keys such as LOG_BLOCK, not "),
        ('{"LOG_BATCH": 8}', "An inp element must take|An acc element must take"),
    ],
)
def test_another_json_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^({message})"):
        Config.from_vta_json(text)


def test_the_hash_holds_what_a_program_can_see() -> None:
    assert PYNQ_Z1.replace(clock_mhz=150.0, memory_bytes=1 << 30).hash == PYNQ_Z1.hash
    assert PYNQ_Z1.hash == 0x7D6422FADF1174B1  # stored in files and hardware: it must not change
    assert PAPER.hash != PYNQ_Z1.hash


def test_names_forgive_case_and_dashes() -> None:
    assert named("PYNQ_Z1") is PYNQ_Z1
    with pytest.raises(ConfigError, match=r"^A configuration name must be one of .*, not 'z9'\.$"):
        named("z9")
