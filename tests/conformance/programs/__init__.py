"""All programs: one file per operator or small family, collected in file order."""

import importlib
import pkgutil

from .program import Family, Program

FAMILIES: list[Family] = [
    module.FAMILY
    for info in sorted(pkgutil.iter_modules(__path__), key=lambda info: info.name)
    if info.name not in ("data", "program")
    for module in [importlib.import_module(f"{__name__}.{info.name}")]
]
PROGRAMS: list[Program] = [program for family in FAMILIES for program in family.programs]
DATASET_PROGRAMS: list[Program] = [program for program in PROGRAMS if not program.value]

__all__ = ["DATASET_PROGRAMS", "FAMILIES", "PROGRAMS", "Family", "Program"]
