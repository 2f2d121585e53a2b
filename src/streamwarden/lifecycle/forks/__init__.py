"""What a fork is, where its parts go and how it is made: decisions only."""
