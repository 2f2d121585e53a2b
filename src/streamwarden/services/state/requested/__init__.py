"""Changes of a state that were asked for on a stream's page: private documents, each with a dry run and a carrying
out."""
