"""Which entries move to the archive, and moving them durably."""
