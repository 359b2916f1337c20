"""Tests that run real pynq, each version in an environment of its own: ``tox run -e pynq3,pynq4``.

pynq asks for numpy before version 2, so these do not run with the others.
"""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("pynq") else ["test_*.py"]
