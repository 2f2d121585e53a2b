"""What the product can do: one folder for each capability."""
