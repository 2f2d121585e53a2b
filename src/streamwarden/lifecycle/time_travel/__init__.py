"""Time travel: which state a checkpoint can still show, and how a look at it is asked and answered. Pure."""
