"""Lowering: from schedules to loop IR, a visible list of stages."""
