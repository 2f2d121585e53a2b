"""Balances the books of a query, one module for each operator."""
