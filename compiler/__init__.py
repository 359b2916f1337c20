"""The compiler: tensor expressions and schedules down to VDLA instructions."""
