"""Loop IR: statements, index arithmetic, printer, verifier."""
