"""The steps of a drill on a live stream, one module each.

A live stream belongs to its supervision: these steps start no driver, stop none but by the fault itself, and remove
nothing. They use no port that makes, empties or removes anything.
"""
