//! The time of day in UTC, as log lines, records and status show it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Whole seconds since 1970.
pub(crate) fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |time| time.as_secs())
}

/// `2026-11-15T04:03:12.345Z`.
pub(crate) fn timestamp(time: SystemTime) -> String {
    let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = since_epoch.as_secs();
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let millis = since_epoch.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// The Gregorian date of a day counted from 1970-01-01.
fn date(day: u64) -> (u64, u64, u64) {
    // Counting years from March puts the leap day last, so that months have a regular pattern: 153 days in five.
    let day = day + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let january_or_february = month >= 10;
    (
        era * 400 + year + u64::from(january_or_february),
        if january_or_february {
            month - 9
        } else {
            month + 3
        },
        day_of_month,
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn known_moments_have_their_date() {
        let shown = |millis| timestamp(UNIX_EPOCH + Duration::from_millis(millis));
        assert_eq!(shown(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(shown(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(shown(1_709_251_199_999), "2024-02-29T23:59:59.999Z");
        assert_eq!(shown(1_704_067_199_000), "2023-12-31T23:59:59.000Z");
        assert_eq!(shown(4_107_542_400_000), "2100-03-01T00:00:00.000Z");
    }
}
