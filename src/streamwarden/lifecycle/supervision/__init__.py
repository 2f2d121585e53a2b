"""When a driver is restarted, stopped or given up."""
