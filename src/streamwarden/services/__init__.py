"""The product's capabilities, one folder for each."""
