"""Files of `config/` that hold for the whole project."""
