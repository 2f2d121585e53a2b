"""Surgery: which keys are taken out of a state, what may be rewritten at all, and what the result has to be. Pure."""
