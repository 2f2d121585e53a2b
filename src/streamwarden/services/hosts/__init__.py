"""Reports what a host that runs drivers has, shows all of them, and drains them."""
