from __future__ import annotations

import json
from typing import Any


def test_the_command(vdla_command: Any) -> None:
    outcome = vdla_command("selftest", "--device", "cycle", "--config", "TINY", "--json")
    report = json.loads(outcome.out)
    assert outcome.code == 0
    assert report["passed"]
    assert report["checks"][-1]["grade"] == "network"
    assert report["checks"][-1]["ratio"] == 1.0


def test_the_command_fails_where_something_is_different(
    vdla_command: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr("vdla.runtime.selftest.run.memory_wrong", lambda *arguments: "it differs")
    outcome = vdla_command("selftest", "--device", "functional", "--config", "TINY")
    assert outcome.code == 1
    assert "fetch, finish: it differs" in outcome.out
    assert "functional, tiny: 35 of 37 checks failed" in outcome.out
