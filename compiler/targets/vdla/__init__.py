"""The VDLA back end: from loop IR to instructions and micro-ops."""
