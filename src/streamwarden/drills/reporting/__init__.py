"""What is shown of a drill: its report, its sentence, its timeline, the resilience of a stream."""
