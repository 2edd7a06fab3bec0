//! When a conversation of a chat begins anew by itself, and what is said about it.

use hermes_config::{ResetMode, ResetPolicy};
use jiff::{Span, Timestamp, ToSpan as _, Zoned, civil::Time};

/// Why a conversation begins anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetReason {
    Idle,
    Daily,
}

impl ResetReason {
    /// The word in `end_reason` and in the routing entry.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Daily => "daily",
        }
    }
}

/// The conversation that may be over.
#[derive(Debug, Clone, Copy)]
pub struct SessionActivity {
    /// When something was said last.
    pub updated_at: Timestamp,
    /// Whether a process that the conversation started is still running.
    pub has_background_process: bool,
}

/// Whether the conversation begins anew with a message that arrives now. The zone of `now` is that of the daily hour.
pub fn find_due_reset(
    policy: &ResetPolicy,
    session: SessionActivity,
    now: &Zoned,
) -> Option<ResetReason> {
    if session.has_background_process {
        return None;
    }
    let (by_idle, by_day) = match policy.mode {
        ResetMode::None => return None,
        ResetMode::Idle => (true, false),
        ResetMode::Daily => (false, true),
        ResetMode::Both => (true, true),
    };
    if by_idle {
        let idle = now.timestamp().duration_since(session.updated_at);
        if idle.as_secs() > i64::from(policy.idle_minutes) * 60 {
            return Some(ResetReason::Idle);
        }
    }
    let boundary = by_day.then(|| last_boundary(now, policy.at_hour)).flatten();
    (session.updated_at < boundary?).then_some(ResetReason::Daily)
}

/// The last time at which it was that hour, in the zone of `now`. An hour that the day does not have is the one after it.
fn last_boundary(now: &Zoned, at_hour: u8) -> Option<Timestamp> {
    let hour = i8::try_from(at_hour).ok()?;
    let time = Time::new(hour, 0, 0, 0).ok()?;
    let at = |date: jiff::civil::Date| {
        let zoned = date.to_datetime(time).to_zoned(now.time_zone().clone());
        zoned.ok().map(|zoned| zoned.timestamp())
    };
    let today = at(now.date())?;
    if today <= now.timestamp() {
        return Some(today);
    }
    let day: Span = 1.day();
    at(now.date().checked_sub(day).ok()?)
}

/// Whether the user is told. `platform` may name an account: `telegram@work`.
pub fn is_user_told(policy: &ResetPolicy, platform: &str) -> bool {
    let name = platform.split('@').next().unwrap_or(platform);
    let mut excluded = policy.notify_exclude_platforms.iter();
    policy.notify && !excluded.any(|excluded| excluded == name || excluded == platform)
}

/// What the user is told.
pub fn describe_reset(reason: ResetReason, policy: &ResetPolicy) -> String {
    let cause = match reason {
        ResetReason::Idle => format!(
            "Nothing was said for {}",
            describe_minutes(policy.idle_minutes)
        ),
        ResetReason::Daily => format!("It is past {:02}:00", policy.at_hour),
    };
    format!("{cause}, so this is a new conversation. `/resume` goes back to the earlier one.")
}

/// What the model is told with the first message.
pub fn note_for_model(reason: ResetReason) -> &'static str {
    match reason {
        ResetReason::Idle => {
            "[This is a new conversation: the earlier one with this user ended because nothing was said for long. You do not see it.]"
        }
        ResetReason::Daily => {
            "[This is a new conversation: the earlier one with this user ended at the daily reset. You do not see it.]"
        }
    }
}

fn describe_minutes(minutes: u32) -> String {
    let (count, unit) = match minutes {
        minutes if minutes.is_multiple_of(1440) => (minutes / 1440, "day"),
        minutes if minutes.is_multiple_of(60) => (minutes / 60, "hour"),
        minutes => (minutes, "minute"),
    };
    match count {
        1 => format!("one {unit}"),
        count => format!("{count} {unit}s"),
    }
}

#[cfg(test)]
mod tests;
