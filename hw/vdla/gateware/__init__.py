"""The accelerator's gateware in Amaranth.

Timing follows ``docs/timing.md``; every constant comes from `vdla.timing`.
"""
