"""The kind of sink `delta`: a table whose log names the query and the batch of each commit."""
