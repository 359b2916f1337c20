"""Layer lists of other tools, as networks: SCALE-Sim's CSV, Timeloop's and ZigZag's YAML."""

from .importer import LAYER_LISTS, import_layers

__all__ = ["LAYER_LISTS", "import_layers"]
