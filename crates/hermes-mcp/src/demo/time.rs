//! The time in UTC, from the system clock.

use std::time::{SystemTime, UNIX_EPOCH};

const SECONDS_A_DAY: u64 = 86_400;

/// A second since 1970.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) unix_seconds: u64,
}

impl Moment {
    /// `None` on a machine whose clock stands before 1970.
    pub(super) fn now() -> Option<Self> {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        Some(Self {
            unix_seconds: since_epoch.as_secs(),
        })
    }

    /// `2026-11-03T09:26:53Z`
    pub(super) fn rfc3339(self) -> String {
        let (year, month, day) = date_of_day(self.unix_seconds / SECONDS_A_DAY);
        let second_of_day = self.unix_seconds % SECONDS_A_DAY;
        let (hour, minute, second) = (
            second_of_day / 3600,
            second_of_day / 60 % 60,
            second_of_day % 60,
        );
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }

    /// `Monday` to `Sunday`.
    pub(super) fn weekday(self) -> &'static str {
        // 1970-01-01 was a Thursday.
        match self.unix_seconds / SECONDS_A_DAY % 7 {
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

/// Year, month and day of the Gregorian calendar. Years are taken to begin in March, so that the leap day comes last.
fn date_of_day(days_since_1970: u64) -> (u64, u64, u64) {
    let days = days_since_1970 + 719_468; // since 0000-03-01
    let era = days / 146_097; // 400 years each
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::Moment;

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
