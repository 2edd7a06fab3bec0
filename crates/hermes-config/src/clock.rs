//! The time of day in UTC, as log lines, records and status show it, and as the demo server tells it.

use std::time::{SystemTime, UNIX_EPOCH};

const DAY_SECONDS: u64 = 86_400;

/// Whole seconds since 1970.
pub fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |time| time.as_secs())
}

/// `2026-11-15T04:03:12.345Z`.
pub fn timestamp(time: SystemTime) -> String {
    let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, millis) = (since_epoch.as_secs(), since_epoch.subsec_millis());
    format!("{}.{millis:03}Z", date_and_time(seconds))
}

/// A second since 1970.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    pub unix_seconds: u64,
}

impl Moment {
    /// `None` on a machine whose clock stands before 1970.
    pub fn now() -> Option<Self> {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        Some(Self {
            unix_seconds: since_epoch.as_secs(),
        })
    }

    /// `2026-11-03T09:26:53Z`
    pub fn rfc3339(self) -> String {
        format!("{}Z", date_and_time(self.unix_seconds))
    }

    /// `Monday` to `Sunday`.
    pub fn weekday(self) -> &'static str {
        // 1970-01-01 was a Thursday.
        match self.unix_seconds / DAY_SECONDS % 7 {
            0 => "Thursday",
            1 => "Friday",
            2 => "Saturday",
            3 => "Sunday",
            4 => "Monday",
            5 => "Tuesday",
            _ => "Wednesday",
        }
    }
}

/// `2026-11-15T04:03:12`.
fn date_and_time(seconds: u64) -> String {
    let (year, month, day) = date(seconds / DAY_SECONDS);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
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

    #[test]
    fn known_moments_are_written_in_utc() {
        for (unix_seconds, text, weekday) in [
            (0, "1970-01-01T00:00:00Z", "Thursday"),
            (951_782_399, "2000-02-28T23:59:59Z", "Monday"),
            (951_782_400, "2000-02-29T00:00:00Z", "Tuesday"),
            (1_234_567_890, "2009-02-13T23:31:30Z", "Friday"),
            (1_735_689_599, "2024-12-31T23:59:59Z", "Tuesday"),
            (4_107_542_400, "2100-03-01T00:00:00Z", "Monday"),
        ] {
            let moment = Moment { unix_seconds };
            assert_eq!(moment.rfc3339(), text);
            assert_eq!(moment.weekday(), weekday, "{text}");
        }
    }
}
