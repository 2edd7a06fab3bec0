//! What tenants may use a day, and what they used.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Time, vocabulary};

/// What a tenant may use a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantLimits {
    /// Runs that are accepted a day, those of cron jobs and chats included; `null` removes the limit.
    pub runs_per_day: Option<u64>,
    /// Tokens of runs that ended; above it no run is accepted. `null` removes the limit.
    pub tokens_per_day: Option<u64>,
}

/// A tenant's limits, and what counts against them today.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LimitUse {
    /// The limits.
    #[serde(flatten)]
    pub limits: TenantLimits,
    /// Runs that were accepted today.
    pub runs_today: u64,
    /// Tokens of runs that ended today.
    pub tokens_today: u64,
    /// When the next day begins, in UTC.
    pub resets_at: Time,
}

/// A daily limit that is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReachedLimit {
    Runs(u64),
    Tokens(u64),
}

impl LimitUse {
    /// The limit that forbids a further run, with so many that are not counted yet.
    pub fn reached(&self, uncounted: u64) -> Option<ReachedLimit> {
        let runs = self.limits.runs_per_day;
        if let Some(most) = runs.filter(|most| self.runs_today.saturating_add(uncounted) >= *most) {
            return Some(ReachedLimit::Runs(most));
        }
        let tokens = self.limits.tokens_per_day;
        let most = tokens.filter(|most| self.tokens_today >= *most)?;
        Some(ReachedLimit::Tokens(most))
    }
}

impl ReachedLimit {
    /// Why there is no run, without numbers, so that it can be counted.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Runs(_) => "the tenant has reached its limit of runs a day",
            Self::Tokens(_) => "the tenant has reached its limit of tokens a day",
        }
    }

    /// For people in a chat, who cannot change a limit.
    pub fn chat_message(self, resets_at: Time) -> String {
        let (most, what) = match self {
            Self::Runs(most) => (most, "answers"),
            Self::Tokens(most) => (most, "tokens"),
        };
        let day = UsageDay::of(resets_at);
        format!(
            "I have reached my limit of {most} {what} a day and answer again on {day}, from midnight UTC. Whoever runs this \
             assistant can raise the limit."
        )
    }

    pub fn message(self, resets_at: Time) -> String {
        let (most, what, member) = match self {
            Self::Runs(most) => (most, "runs", "runsPerDay"),
            Self::Tokens(most) => (most, "tokens", "tokensPerDay"),
        };
        format!(
            "the tenant has reached its limit of {most} {what} a day, which begins anew at {resets_at}; wait, or raise \
             `{member}` of its limits"
        )
    }
}

/// Days since 1970 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UsageDay(pub i64);

const DAY_MILLIS: i64 = 24 * 60 * 60 * 1000;

impl UsageDay {
    pub fn of(time: Time) -> Self {
        Self(time.millis().div_euclid(DAY_MILLIS))
    }

    pub fn start(self) -> Time {
        Time::from_millis(self.0.saturating_mul(DAY_MILLIS))
    }

    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// `2026-11-18`; `None` if it is not a date.
    pub fn parse(text: &str) -> Option<Self> {
        let date: jiff::civil::Date = text.parse().ok()?;
        let start = date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
        Some(Self::of(start.into()))
    }
}

impl std::fmt::Display for UsageDay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let start = self.start().timestamp();
        write!(f, "{}", start.to_zoned(jiff::tz::TimeZone::UTC).date())
    }
}

vocabulary! {
    /// What usage is summed up by.
    UsageGroup {
        /// By tenant.
        Tenant = "tenant",
        /// By model.
        Model = "model",
        /// By day, in UTC.
        Day = "day",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_begins_at_midnight_utc_and_reads_back() {
        let day = UsageDay::parse("2026-11-18").unwrap();
        assert_eq!(day.to_string(), "2026-11-18");
        assert_eq!(day.start().to_string(), "2026-11-18T00:00:00.000Z");
        let last = Time::from_millis(day.next().start().millis() - 1);
        assert_eq!(UsageDay::of(last), day);
        assert_eq!(UsageDay::of(day.next().start()), day.next());
        assert_eq!(UsageDay::parse("yesterday"), None);
    }

    #[test]
    fn either_limit_forbids_a_run_and_none_forbids_nothing() {
        let used = |runs_per_day, tokens_per_day| LimitUse {
            limits: TenantLimits {
                runs_per_day,
                tokens_per_day,
            },
            runs_today: 2,
            tokens_today: 100,
            resets_at: Time::from_millis(0),
        };
        assert_eq!(used(None, None).reached(1000), None);
        assert_eq!(used(Some(3), None).reached(0), None);
        assert_eq!(used(Some(3), None).reached(1), Some(ReachedLimit::Runs(3)));
        assert_eq!(used(None, Some(101)).reached(9), None);
        assert_eq!(
            used(None, Some(100)).reached(0),
            Some(ReachedLimit::Tokens(100))
        );
        assert_eq!(used(Some(0), None).reached(0), Some(ReachedLimit::Runs(0)));
    }
}
