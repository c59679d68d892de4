"""What time it is, here or in a time zone or city that the model names."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, available_timezones


def tell_time(timezone: str = "", *, now: datetime | None = None) -> str:
    """Return date, time and zone; `timezone` is an IANA name or its city, empty for this machine's.

    Raises ValueError with words for the model.
    """
    zone = ZoneInfo(_find_zone(timezone)) if timezone else None
    return (now or datetime.now(UTC)).astimezone(zone).strftime("%A, %Y-%m-%d %H:%M:%S %Z")


def _find_zone(name: str) -> str:
    wanted = name.strip().replace(" ", "_").casefold()
    zones = sorted(available_timezones())
    for spelled in (str.casefold, _city):
        found = next((zone for zone in zones if spelled(zone) == wanted), None)
        if found is not None:
            return found
    raise ValueError(f"unknown time zone {name!r}; use an IANA name like 'Europe/Berlin'")


def _city(zone: str) -> str:
    return zone.rpartition("/")[2].casefold()
