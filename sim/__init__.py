"""Simulators of the accelerator: the functional model and the cycle model."""
