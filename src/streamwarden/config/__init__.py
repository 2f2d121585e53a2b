"""The configuration: YAML files parsed, checked and turned into specs."""
