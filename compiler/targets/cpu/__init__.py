"""The CPU back end: from loop IR to machine code in a shared object."""
