"""The book of results: rows that were run once, kept, and folded into pages."""
