"""Simulators of the accelerator: the functional model, the cycle model and the race check."""
