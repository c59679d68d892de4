"""What time it is, here or in a time zone that the model names."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


def tell_time(timezone: str = "", *, now: datetime | None = None) -> str:
    """Return date, time and zone; `timezone` is an IANA name, empty for this machine's.

    Raises ValueError with words for the model.
    """
    moment = now or datetime.now(UTC)
    try:
        zoned = moment.astimezone(ZoneInfo(timezone) if timezone else None)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"unknown time zone {timezone!r}; use an IANA name like 'Europe/Berlin'") from None
    return zoned.strftime("%A, %Y-%m-%d %H:%M:%S %Z")
