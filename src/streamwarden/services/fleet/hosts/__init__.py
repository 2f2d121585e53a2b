"""Which host may start a stream, and the fence that ends a driver on another one."""
