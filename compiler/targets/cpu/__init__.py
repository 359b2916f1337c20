"""The CPU back end: from loop IR to machine code in a shared object."""

from .link import link
from .target import LEVELS, Target, host_target, supports

__all__ = ["LEVELS", "Target", "host_target", "link", "supports"]
