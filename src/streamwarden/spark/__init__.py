"""What runs inside the Spark driver."""
