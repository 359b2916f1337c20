"""The runtime: devices, compiled networks, and the command line."""
