"""Overlays: what turns the gateware into a bitstream that pynq loads on a board."""

from .hwh import hardware_handoff

__all__ = ["hardware_handoff"]
