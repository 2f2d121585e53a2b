"""The file that spark-submit runs for each program but the driver. Arguments: the program's name, and its folder.

A program is a module beside this one with `main(folder)`, which returns its exit code, or None for 0.
"""

import gc
import sys
from importlib import import_module
from pathlib import Path

if __name__ == "__main__":
    # spark-submit put this file's folder first: its modules must not shadow the standard library's or the job's.
    sys.path[:] = [entry for entry in sys.path if entry != str(Path(__file__).resolve().parent)]
    gc.disable()  # what the imports make stays: to look through it takes a quarter of their time

    from streamwarden.spark.internals.skip_numpy import without_numpy

    without_numpy()
    name, folder = sys.argv[1:]
    program = import_module(f"streamwarden.spark.programs.{name}")
    gc.freeze()
    gc.enable()
    sys.exit(program.main(Path(folder)))
