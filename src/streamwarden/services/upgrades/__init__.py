"""Upgrades the job of a stream: tries the new version on forks, switches the stream's file to it, and switches back."""
