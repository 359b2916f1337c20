"""Errors meant for a person: each states the rule, then the value, then the remedy."""

from __future__ import annotations

__all__ = [
    "AssemblyError",
    "ConfigError",
    "DeviceError",
    "EncodingError",
    "InputError",
    "LoweringError",
    "ModelError",
    "ModuleError",
    "OverlayError",
    "ProgramError",
    "ScheduleError",
    "VdlaError",
    "VdlaWarning",
]


class VdlaError(Exception):
    """Base of every error that a user's input can cause."""


class ConfigError(VdlaError):
    """A configuration breaks a rule of the hardware."""


class EncodingError(VdlaError):
    """An instruction or micro-op does not fit its encoding, or bits encode no instruction."""


class AssemblyError(VdlaError):
    """Assembly text cannot be parsed; the message names the line."""


class ProgramError(VdlaError):
    """A program is illegal, deadlocks, races or leaves tokens behind."""


class ModelError(VdlaError):
    """A network cannot be read or contains what no device takes."""


class ScheduleError(VdlaError):
    """A schedule primitive is applied where it has no meaning."""


class LoweringError(VdlaError):
    """A scheduled tensor expression cannot be turned into code for its target."""


class ModuleError(VdlaError):
    """A compiled file is damaged, or belongs to another configuration or version."""


class OverlayError(VdlaError):
    """An overlay's files are missing, damaged, or belong to another board or version."""


class InputError(VdlaError):
    """Data given to a network has the wrong shape, dtype or range."""


class DeviceError(VdlaError):
    """A device cannot do what is asked of it."""


class VdlaWarning(RuntimeWarning):
    """Something works, and not as well as it could; the message says why."""
