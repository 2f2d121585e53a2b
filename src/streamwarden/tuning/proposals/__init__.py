"""What `advise --apply` would change of a stream's file, and whether a trial of it is a gain. Pure."""
