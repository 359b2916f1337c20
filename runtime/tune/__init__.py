"""The autotuner: schedules are proposed, built, measured and remembered."""
