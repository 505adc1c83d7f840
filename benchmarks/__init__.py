"""Measurements, as ratios within one run: these machines are noisy and absolute times drift."""
