"""Rates, intervals and times in the words of the commands."""

from __future__ import annotations

from datetime import UTC, datetime


def days_text(days: float) -> str:
    """Return a number of days in few characters: 3 h, 4.5 d, 120 d, 7.3 y."""
    if days < 1:
        return f"{24 * days:.0f} h" if days * 24 >= 1 else f"{1440 * days:.0f} min"
    if days < 10:
        return f"{days:.1f} d"
    return f"{days:.0f} d" if days < 1000 else f"{days / 365.25:.1f} y"


def interval_text(rate_per_day: float) -> str:
    """Return a rate as the mean time between updates."""
    if not rate_per_day > 0 or 1 / rate_per_day > 36_525:
        return "100 y or more" if rate_per_day > 0 else "-"
    return days_text(1 / rate_per_day)


def chance_text(p: float) -> str:
    """Return a probability with four digits, or that it is small."""
    return f"{p:.4f}" if p >= 0.001 or not p else "< 0.001"


def iso_text(at: float) -> str:
    """Return seconds since 1970 UTC as 2026-01-31T13:00:00Z."""
    return f"{datetime.fromtimestamp(int(at), UTC):%Y-%m-%dT%H:%M:%SZ}"
