"""Gateway to files, local and in object stores."""
