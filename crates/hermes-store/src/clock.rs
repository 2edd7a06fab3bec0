//! Time as the files of a home write it: seconds since 1970 in databases, ISO text in JSON.

use std::time::SystemTime;

use jiff::{Timestamp, Zoned, tz::TimeZone};

/// Seconds since 1970, with microseconds.
pub fn epoch_seconds() -> f64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0.0, |elapsed| elapsed.as_secs_f64())
}

/// That moment as local time without a zone, with microseconds: `2026-11-15T02:01:02.467454`. Empty if it is
/// out of range.
pub fn local_iso(epoch: f64) -> String {
    to_timestamp(epoch).map_or_else(String::new, |moment| {
        let local = moment.to_zoned(TimeZone::system()).datetime();
        local.strftime("%Y-%m-%dT%H:%M:%S.%6f").to_string()
    })
}

/// That moment in UTC, with microseconds: `2026-11-15T02:01:02.467454Z`. Empty if it is out of range.
pub fn utc_iso(epoch: f64) -> String {
    to_timestamp(epoch).map_or_else(String::new, |moment| {
        moment.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
    })
}

/// `2026-11-15T02:01:02.467454+01:00`, as Python's `isoformat` writes it.
pub fn zoned_iso(time: &Zoned) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6f%:z").to_string()
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the range was checked, and microseconds are enough"
)]
fn to_timestamp(epoch: f64) -> Option<Timestamp> {
    // The fraction alone, because seconds and microseconds together have more digits than a number keeps.
    let microseconds = (epoch.fract() * 1e6).round_ties_even() as i64;
    (epoch.abs() < 9e12)
        .then(|| Timestamp::from_microsecond(epoch.trunc() as i64 * 1_000_000 + microseconds).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_times_have_microseconds_and_no_zone() {
        let text = local_iso(1_794_708_062.467_454);
        assert_eq!(text.len(), "2026-11-15T02:01:02.467454".len());
        assert!(text.ends_with(":02.467454"), "{text}");
        assert!(local_iso(0.0).ends_with(".000000"));
        assert!(local_iso(1_794_742_185.945_335_4).ends_with(".945335"));
        assert_eq!(local_iso(f64::NAN), "");
        assert_eq!(local_iso(1e30), "");
    }

    #[test]
    fn universal_times_end_in_a_z() {
        assert_eq!(
            utc_iso(1_794_708_062.467_454),
            "2026-11-15T02:01:02.467454Z"
        );
        assert_eq!(utc_iso(f64::INFINITY), "");
    }

    #[test]
    fn zoned_times_end_in_their_offset() {
        let time: Zoned = "2026-11-15T02:01:02[Asia/Kolkata]".parse().unwrap();
        assert_eq!(zoned_iso(&time), "2026-11-15T02:01:02.000000+05:30");
    }
}
