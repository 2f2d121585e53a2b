"""`/api/v1`: the content of the pages and what people do on them, for programs."""
