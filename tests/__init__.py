"""Tests; they mirror the sources' names."""
