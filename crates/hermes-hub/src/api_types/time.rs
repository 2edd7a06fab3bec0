//! Timestamps in UTC with milliseconds.

use std::{
    borrow::Cow,
    fmt,
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What is added to the machine's clock, in milliseconds: nothing, unless it is known to be wrong.
static CORRECTION: AtomicI64 = AtomicI64::new(0);

/// A clock that differs by less is left alone: the rest is how long the database took to answer.
const TOLERATED_MILLIS: i64 = 5_000;

/// A timestamp; RFC 3339 in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Time(Timestamp);

impl Time {
    /// The present by the machine's clock, or by the database's where that is far from it.
    pub fn now() -> Self {
        let correction = CORRECTION.load(Ordering::Relaxed);
        Self::from_millis(Self::by_machine().millis().saturating_add(correction))
    }

    /// The present by the machine's clock.
    pub(crate) fn by_machine() -> Self {
        Self::from_millis(Timestamp::now().as_millisecond())
    }

    /// Has this process go by the clock of the database that nodes share, if the machine's is wrong: a node must not
    /// delete what is not yet old. Returns by how many milliseconds the database's is ahead.
    pub(crate) fn follow_database(database: Self) -> i64 {
        let offset = database.millis() - Self::by_machine().millis();
        let is_wrong = offset.saturating_abs() > TOLERATED_MILLIS;
        let correction = if is_wrong { offset } else { 0 };
        let before = CORRECTION.swap(correction, Ordering::Relaxed);
        if is_wrong && before == 0 {
            tracing::warn!(
                seconds = -offset / 1000,
                "clock of this machine is wrong: the database's time is used; set it, or run an NTP client"
            );
        }
        offset
    }

    /// From Unix milliseconds; clamped if out of range.
    pub fn from_millis(milliseconds: i64) -> Self {
        Self(
            Timestamp::from_millisecond(milliseconds).unwrap_or(if milliseconds < 0 {
                Timestamp::MIN
            } else {
                Timestamp::MAX
            }),
        )
    }

    /// Unix milliseconds.
    pub fn millis(self) -> i64 {
        self.0.as_millisecond()
    }

    pub fn timestamp(self) -> Timestamp {
        self.0
    }

    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let milliseconds = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self::from_millis(self.millis().saturating_add(milliseconds))
    }

    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        let milliseconds = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self::from_millis(self.millis().saturating_sub(milliseconds))
    }
}

impl From<Timestamp> for Time {
    fn from(timestamp: Timestamp) -> Self {
        Self::from_millis(timestamp.as_millisecond())
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.0)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        let timestamp: Timestamp = text.parse().map_err(serde::de::Error::custom)?;
        Ok(timestamp.into())
    }
}

impl JsonSchema for Time {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc_with_milliseconds_and_come_back_the_same() {
        let time = Time::from_millis(1_794_708_062_467);
        let text = serde_json::to_string(&time).unwrap();
        assert_eq!(text, "\"2026-11-15T02:01:02.467Z\"");
        assert_eq!(serde_json::from_str::<Time>(&text).unwrap(), time);
        let offset: Time = serde_json::from_str("\"2026-11-15T03:01:02.467+01:00\"").unwrap();
        assert_eq!(offset, time);
    }

    #[test]
    fn no_number_is_too_large_for_a_time() {
        assert!(Time::from_millis(i64::MAX) > Time::now());
        assert!(Time::from_millis(i64::MIN) < Time::now());
        assert!(Time::now().after(Duration::MAX) > Time::now());
    }
}
