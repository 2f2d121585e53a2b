"""What the pages say of a row, decided apart from the templates. Pure."""
