"""Hosts: what each reports, which may start a stream, and the fence that ends a driver that is cut off. Pure."""
