"""One point of a sweep: a machine, a network, and how it is compiled."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vdla.config import Config

from .axes import DEPTHS, FIELDS

__all__ = ["OPTIONS", "Point"]

OPTIONS: Mapping[str, Any] = {
    "device": "cycle",
    "place": {},
    "rank": "estimate",
    "vthreads": 2,
    "without": (),
}
"""What a point is compiled and run with unless it says otherwise."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """What is compiled and run together.

    Parameters
    ----------
    network : str
        As the specification names it.
    base : str
        Name of the configuration that was changed.
    fields : dict
        Every field of the configuration but its name; they may break its rules.
    options : dict
        A value for each of `OPTIONS`.
    check : bool
        Whether every layer is compared with the integer interpreter.
    seed : int
        Of the noise that runs through the network.
    """

    network: str
    base: str
    fields: Mapping[str, Any]
    options: Mapping[str, Any]
    check: bool = False
    seed: int = 0

    @classmethod
    def of(
        cls, network: str, base: Config, settings: Mapping[str, Any], *, check: bool, seed: int
    ) -> Point:
        """Make a point of a configuration and what axes set.

        A depth becomes bytes once the core's shape is known, whatever the order of axes.
        """
        start = {name: value for name, value in base.to_dict().items() if name != "name"}
        start |= {name: value for name, value in settings.items() if name in FIELDS}
        found = {name: FIELDS[name](value) for name, value in start.items()}
        bits = _element_bits(found)
        for depth, field in DEPTHS.items():
            if depth in settings:
                found[field] = settings[depth] * bits[depth] // 8
        options = {**OPTIONS, **{n: v for n, v in settings.items() if n in OPTIONS}}
        options["without"] = tuple(sorted(options["without"]))
        options["place"] = dict(options["place"])
        return cls(
            network=network,
            base=base.name,
            fields=found,
            options=options,
            check=check,
            seed=seed,
        )

    def config(self) -> Config:
        """Return the configuration.

        Raises
        ------
        ConfigError
            It breaks a rule.
        """
        return Config(**self.fields, name=self.base if self._is_base() else "custom")

    def key(self, network_key: str) -> str:
        """Return what the result depends on, as 32 hexadecimal digits.

        Parameters
        ----------
        network_key : str
            Of the network's content and the tool's version.

        The seed counts only where values are compared: cycles depend on no value.
        """
        options = {**self.options, "place": list(self.options["place"].items())}
        checked = self.seed if self.check else None
        text = json.dumps(
            [network_key, sorted(self.fields.items()), sorted(options.items()), checked]
        )
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def to_dict(self) -> dict[str, Any]:
        """Return the point as JSON holds it."""
        return {
            "network": self.network,
            "config": self.base,
            "fields": dict(self.fields),
            "options": {**self.options, "without": list(self.options["without"])},
            "check": self.check,
            "seed": self.seed,
        }

    def _is_base(self) -> bool:
        from vdla.config import PRESETS

        preset = PRESETS.get(self.base)
        return preset is not None and all(
            getattr(preset, name) == value for name, value in self.fields.items()
        )


def _element_bits(fields: Mapping[str, Any]) -> dict[str, int]:
    rows, inner, outer = fields["batch"], fields["block_in"], fields["block_out"]
    return {
        "uop_depth": 32,
        "inp_depth": rows * inner * fields["inp_bits"],
        "wgt_depth": inner * outer * fields["wgt_bits"],
        "acc_depth": rows * outer * fields["acc_bits"],
    }
