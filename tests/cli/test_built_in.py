"""Networks that need no file, from the command line."""

from __future__ import annotations

import json
from typing import Any

from vdla.compiler.zoo import BUILT_IN
from vdla.runtime.cli import options


def test_help_lists_them(vdla_command: Any) -> None:
    assert tuple(BUILT_IN) == options.BUILT_IN
    text = " ".join(vdla_command("simulate", "--help").out.split())
    assert f"built in: {', '.join(BUILT_IN)}." in text


def test_a_name_that_is_none_lists_them(vdla_command: Any) -> None:
    outcome = vdla_command("simulate", "resnet51")
    assert outcome.code == 2
    assert f"must be one of {', '.join(BUILT_IN)}, not 'resnet51'" in outcome.err


def test_digits_shows_what_it_reads_and_what_is_true(vdla_command: Any) -> None:
    lines = vdla_command("simulate", "digits").out.splitlines()
    truths = [line.rpartition("; truly ")[2] for line in lines if line.startswith("classes")]
    assert truths == list("0123456789")
    assert lines[-1].endswith(" of 10 images are classified rightly")
    assert int(lines[-1].split()[0]) >= 9
    report = json.loads(vdla_command("simulate", "digits", "--json").out)
    assert report["labels"] == list(range(10))
    right = sum(best[0]["class"] == true for true, best in enumerate(report["classes"]))
    assert right == int(lines[-1].split()[0])
