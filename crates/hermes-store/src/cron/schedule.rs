//! When a job runs: once, at intervals, or by a cron expression.

use std::{str::FromStr, time::Duration};

use croner::{
    Cron,
    parser::{CronParser, Seconds, Year},
};
use jiff::{Timestamp, ToSpan, Zoned, civil};
use serde_json::{Value, json};

use crate::clock::zoned_iso;

mod explain;
mod phrase;

pub use crate::cron::schedule::explain::ScheduleExplanation;

/// How far in the past a single time may be and still be accepted.
const ONCE_GRACE: i64 = 120;

/// When a job runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Schedule {
    /// At one time.
    Once {
        at: Zoned,
        /// How it was asked for.
        display: String,
    },
    /// Again and again, so many minutes after the last run.
    Interval {
        /// At least one.
        minutes: i64,
    },
    /// By the clock.
    Cron {
        /// Five fields: minute, hour, day, month, weekday.
        expression: String,
    },
}

/// Why a text is not a schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// It has none of the forms.
    #[error(
        "`{text}` is not a schedule; use a duration (`30m`, `in 2h`: once, that far ahead), an interval (`every 30m`, `every hour`), days and a time (`every monday 9am`, `weekdays at 9am`, `daily at 18:30`), a cron expression (`0 9 * * MON-FRI`: five fields) or a time (`2026-02-03T14:00`: once)"
    )]
    Unknown { text: String },
    /// It looks like a cron expression, but is not valid.
    #[error("`{text}` is not a cron expression: {reason}")]
    BadExpression { text: String, reason: String },
    /// It looks like a time, but is not valid.
    #[error("`{text}` is not a time: {reason}")]
    BadTime { text: String, reason: String },
    /// The only time it names is over.
    #[error("`{text}` is more than {ONCE_GRACE} seconds in the past")]
    Past { text: String },
}

impl Schedule {
    /// Reads a schedule. Times without a zone are in the zone of `now`.
    pub fn parse(text: &str, now: &Zoned) -> Result<Self, ScheduleError> {
        let text = text.trim();
        let schedule = Self::parse_form(text, now)?;
        match &schedule {
            Self::Once { at, .. } if seconds_between(at, now) > ONCE_GRACE => {
                Err(ScheduleError::Past { text: text.into() })
            }
            Self::Cron { expression } => {
                // A date such as 30 February never comes.
                next_cron_run(expression, now).map_err(|reason| ScheduleError::BadExpression {
                    text: text.into(),
                    reason,
                })?;
                Ok(schedule)
            }
            _ => Ok(schedule),
        }
    }

    fn parse_form(text: &str, now: &Zoned) -> Result<Self, ScheduleError> {
        let unknown = || ScheduleError::Unknown { text: text.into() };
        let lower = text.to_ascii_lowercase();
        if let Some(minutes) = lower.strip_prefix("every ").and_then(parse_minutes) {
            return match minutes {
                ..=0 => Err(unknown()),
                minutes => Ok(Self::Interval { minutes }),
            };
        }
        let ahead = lower.strip_prefix("in ").unwrap_or(&lower).trim();
        if let Some(minutes) = parse_minutes(ahead) {
            let at = now.checked_add(minutes.minutes()).map_err(|_| unknown())?;
            let given = text[text.len() - ahead.len()..].trim();
            return Ok(Self::Once {
                at,
                display: format!("once in {given}"),
            });
        }
        if let Some(expression) = phrase::cron_fields(text) {
            return Ok(Self::Cron { expression });
        }
        if let Some(schedule) = phrase::parse_phrase(&lower) {
            return Ok(schedule);
        }
        if looks_like_time(text) {
            let at = parse_time(text, now).map_err(|error| ScheduleError::BadTime {
                text: text.into(),
                reason: error.to_string(),
            })?;
            return Ok(Self::Once {
                display: format!("once at {}", at.strftime("%Y-%m-%d %H:%M")),
                at,
            });
        }
        Err(unknown())
    }

    /// Reads the stored form. Nothing if it makes no sense.
    pub fn from_json(value: &Value, now: &Zoned) -> Option<Self> {
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        match text("kind")? {
            "once" => Some(Self::Once {
                at: parse_time(text("run_at")?, now).ok()?,
                display: text("display").unwrap_or_default().into(),
            }),
            "interval" => {
                let minutes = value
                    .get("minutes")?
                    .as_i64()
                    .filter(|minutes| *minutes > 0)?;
                Some(Self::Interval { minutes })
            }
            "cron" => Some(Self::Cron {
                expression: text("expr")?.into(),
            }),
            _ => None,
        }
    }

    /// The stored form.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Once { at, display } => {
                json!({"kind": "once", "run_at": zoned_iso(at), "display": display})
            }
            Self::Interval { minutes } => {
                json!({"kind": "interval", "minutes": minutes, "display": self.display()})
            }
            Self::Cron { expression } => {
                json!({"kind": "cron", "expr": expression, "display": self.display()})
            }
        }
    }

    pub fn display(&self) -> String {
        match self {
            Self::Once { display, .. } => display.clone(),
            Self::Interval { minutes } => format!("every {minutes}m"),
            Self::Cron { expression } => expression.clone(),
        }
    }

    /// Whether it runs more than once.
    pub fn is_recurring(&self) -> bool {
        !matches!(self, Self::Once { .. })
    }

    /// The first run after `last`, or after `now` if there was none. None when there is no more.
    ///
    /// By the clock, a time that daylight saving skips runs at the next minute there is, and one that comes twice
    /// runs once.
    pub fn next_run(&self, last: Option<&Zoned>, now: &Zoned) -> Option<Zoned> {
        match self {
            Self::Once { at, .. } => match last {
                Some(_) => None,
                None => (seconds_between(at, now) <= ONCE_GRACE)
                    .then(|| at.with_time_zone(now.time_zone().clone())),
            },
            Self::Interval { minutes } => last
                .unwrap_or(now)
                .with_time_zone(now.time_zone().clone())
                .checked_add(minutes.minutes())
                .ok(),
            Self::Cron { expression } => {
                let base = last.unwrap_or(now).with_time_zone(now.time_zone().clone());
                next_cron_run(expression, &base).ok()
            }
        }
    }

    /// The first run after both `due` and `now`, in the rhythm of `due` while that is kept: a clock set back does not
    /// repeat runs, and one set forward does not make up for all that it skipped.
    pub fn next_after(&self, due: &Zoned, now: &Zoned) -> Option<Zoned> {
        let next = self.next_run(Some(due), now)?;
        if next.timestamp() > now.timestamp() {
            Some(next)
        } else {
            self.next_run(Some(now), now)
        }
    }

    /// Whether a run that was due then is too late now.
    pub fn is_missed(&self, due: &Zoned, now: &Zoned) -> bool {
        let late = u64::try_from(seconds_between(due, now)).unwrap_or(0);
        self.tolerance(due)
            .is_some_and(|tolerance| late > tolerance.as_secs())
    }

    /// How late a run may begin: half the time to the next one, but at least two minutes and at most two hours.
    /// A single run is never too late.
    fn tolerance(&self, due: &Zoned) -> Option<Duration> {
        let next = self
            .next_run(Some(due), due)
            .filter(|_| self.is_recurring())?;
        let half = seconds_between(due, &next) / 2;
        Some(Duration::from_secs(
            u64::try_from(half.clamp(120, 7200)).unwrap_or(120),
        ))
    }
}

/// From one time to another; negative if that is earlier.
pub(super) fn seconds_between(from: &Zoned, to: &Zoned) -> i64 {
    to.timestamp().as_second() - from.timestamp().as_second()
}

fn next_cron_run(expression: &str, after: &Zoned) -> Result<Zoned, String> {
    parse_expression(expression)?
        .find_next_occurrence(after, false)
        .map_err(|error| error.to_string())
}

fn parse_expression(expression: &str) -> Result<Cron, String> {
    CronParser::builder()
        .seconds(Seconds::Disallowed)
        .year(Year::Disallowed)
        .build()
        .parse(expression)
        .map_err(|error| error.to_string())
}

/// `30m`, `2 hours`, `1d`, in lower case.
fn parse_minutes(text: &str) -> Option<i64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let number: i64 = text[..digits].parse().ok()?;
    let factor = match text[digits..].trim() {
        "m" | "min" | "mins" | "minute" | "minutes" => 1,
        "h" | "hr" | "hrs" | "hour" | "hours" => 60,
        "d" | "day" | "days" => 60 * 24,
        _ => return None,
    };
    number.checked_mul(factor)
}

fn looks_like_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digits = |from: usize, to: usize| {
        bytes
            .get(from..to)
            .is_some_and(|part| part.iter().all(u8::is_ascii_digit))
    };
    (digits(0, 4) && bytes.get(4) == Some(&b'-') && digits(5, 7)) || text.contains('T')
}

/// A date or time; without a zone it is in that of `now`.
pub(super) fn parse_time(text: &str, now: &Zoned) -> Result<Zoned, jiff::Error> {
    let zone = now.time_zone().clone();
    if let Ok(moment) = Timestamp::from_str(text) {
        return Ok(moment.to_zoned(zone));
    }
    civil::DateTime::from_str(text)?.to_zoned(zone)
}

#[cfg(test)]
mod tests;
