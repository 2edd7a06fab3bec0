//! How a platform account is, in the words of the state file.

use std::time::{Duration, SystemTime};

use hermes_store::utc_iso;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::platform::{ConnectionState, PlatformHealth};

/// A platform that has been without a connection for this long is `degraded`.
const DEGRADED_AFTER: Duration = Duration::from_mins(5);

/// The state of one account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlatformStatus {
    Connecting,
    /// A poll returned, or a heartbeat was acknowledged, lately.
    Connected,
    Reconnecting,
    /// Without a connection for five minutes.
    Degraded,
    /// It claims to be connected and has heard nothing for three periods.
    Deaf,
    /// It will not work until the configuration changes.
    Fatal,
    Stopped,
    NotConfigured,
}

impl PlatformStatus {
    const ALL: [Self; 8] = [
        Self::Connecting,
        Self::Connected,
        Self::Reconnecting,
        Self::Degraded,
        Self::Deaf,
        Self::Fatal,
        Self::Stopped,
        Self::NotConfigured,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Reconnecting => "reconnecting",
            Self::Degraded => "degraded",
            Self::Deaf => "deaf",
            Self::Fatal => "fatal",
            Self::Stopped => "stopped",
            Self::NotConfigured => "not_configured",
        }
    }

    /// Reads a word of the state file. Older gateways wrote `retrying`, `running` and `error`.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "retrying" => Some(Self::Reconnecting),
            "running" => Some(Self::Connected),
            "error" => Some(Self::Fatal),
            _ => Self::ALL.into_iter().find(|known| known.as_str() == word),
        }
    }

    /// Whether somebody should look at it.
    pub fn is_problem(self) -> bool {
        matches!(
            self,
            Self::Reconnecting | Self::Degraded | Self::Deaf | Self::Fatal
        )
    }
}

/// What is known about an account at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlatformReport {
    pub state: PlatformStatus,
    /// A word for programs: `bad_token`, `missing_intent`.
    pub code: Option<String>,
    /// The cause and the fix, for people.
    pub message: Option<String>,
    /// When a poll returned or a heartbeat was acknowledged last.
    pub last_ok_at: Option<SystemTime>,
    /// What should be changed although it works.
    pub warnings: Vec<PlatformWarning>,
    /// The bot's name on its platform, once it is known.
    pub bot_name: Option<String>,
}

/// Something that should be changed although the account works, such as an app token that another program uses too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlatformWarning {
    /// A word for programs.
    pub code: String,
    pub message: String,
}

impl PlatformReport {
    pub fn new(state: PlatformStatus) -> Self {
        Self {
            state,
            code: None,
            message: None,
            last_ok_at: None,
            warnings: Vec::new(),
            bot_name: None,
        }
    }

    /// What the health of an account says now.
    pub fn from_health(health: &PlatformHealth, now: SystemTime) -> Self {
        let warnings = health.warnings().into_iter();
        let warnings = warnings.map(|(code, message)| PlatformWarning {
            code: code.to_owned(),
            message,
        });
        Self {
            warnings: warnings.collect(),
            bot_name: health.bot_name(),
            ..Self::from_state(health, now)
        }
    }

    fn from_state(health: &PlatformHealth, now: SystemTime) -> Self {
        let last_ok_at = health.last_ok_at();
        let with = |state, code: &str, message: String| Self {
            code: Some(code.to_owned()),
            message: Some(message),
            last_ok_at,
            ..Self::new(state)
        };
        match health.state() {
            ConnectionState::Connecting => Self {
                last_ok_at,
                ..Self::new(PlatformStatus::Connecting)
            },
            ConnectionState::Connected if health.is_deaf(now) => with(
                PlatformStatus::Deaf,
                "deaf",
                "the connection is open, but nothing has been heard for three periods; a restart of the process \
                 that has it connects anew"
                    .into(),
            ),
            ConnectionState::Connected => Self {
                last_ok_at,
                ..Self::new(PlatformStatus::Connected)
            },
            ConnectionState::Reconnecting { code, message } => {
                let lost = health.lost_since();
                let outage = lost.and_then(|lost| now.duration_since(lost).ok());
                let state = match outage {
                    Some(outage) if outage >= DEGRADED_AFTER => PlatformStatus::Degraded,
                    _ => PlatformStatus::Reconnecting,
                };
                with(state, code, message)
            }
            ConnectionState::Fatal { code, message } => with(PlatformStatus::Fatal, code, message),
            ConnectionState::Stopped => Self {
                last_ok_at,
                ..Self::new(PlatformStatus::Stopped)
            },
        }
    }
}

/// How one platform account of a gateway is, as the state file has it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PlatformState {
    /// See [`PlatformStatus`]. Other programs may write other words.
    #[serde(default)]
    pub state: String,
    #[serde(default)]
    pub error_code: Option<String>,
    #[serde(default)]
    pub error_message: Option<String>,
    /// When a poll returned or a heartbeat was acknowledged last, in UTC.
    #[serde(default)]
    pub last_ok_at: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<PlatformWarning>,
    /// The bot's name on its platform, once it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bot_name: Option<String>,
    /// When this state was found, in UTC.
    #[serde(default)]
    pub updated_at: String,
}

impl PlatformState {
    pub(super) fn from_report(report: &PlatformReport, now: SystemTime) -> Self {
        Self {
            state: report.state.as_str().to_owned(),
            error_code: report.code.clone(),
            error_message: report.message.clone(),
            last_ok_at: report.last_ok_at.map(format_time),
            warnings: report.warnings.clone(),
            bot_name: report.bot_name.clone(),
            updated_at: format_time(now),
        }
    }

    /// The state, if it is one of ours.
    pub fn status(&self) -> Option<PlatformStatus> {
        PlatformStatus::from_word(&self.state)
    }

    /// Since when it is deaf, if it is.
    pub(super) fn deaf_since(&self) -> Option<SystemTime> {
        if self.status() != Some(PlatformStatus::Deaf) {
            return None;
        }
        let since: Timestamp = self.updated_at.parse().ok()?;
        Some(since.into())
    }

    /// Whether it is the same apart from the times.
    pub(super) fn says_the_same(&self, other: &Self) -> bool {
        (
            &self.state,
            &self.error_code,
            &self.error_message,
            &self.warnings,
            &self.bot_name,
        ) == (
            &other.state,
            &other.error_code,
            &other.error_message,
            &other.warnings,
            &other.bot_name,
        )
    }
}

fn format_time(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    utc_iso(since.map_or(0.0, |since| since.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(50);

    #[test]
    fn every_state_has_a_word_and_older_words_are_known() {
        for word in PlatformStatus::ALL {
            assert_eq!(PlatformStatus::from_word(word.as_str()), Some(word));
        }
        assert_eq!(
            PlatformStatus::from_word("retrying"),
            Some(PlatformStatus::Reconnecting)
        );
        assert_eq!(PlatformStatus::from_word("paused"), None);
    }

    #[test]
    fn a_platform_that_hears_nothing_for_three_periods_is_deaf() {
        let health = PlatformHealth::new(PERIOD);
        let now = SystemTime::now();
        let report = PlatformReport::from_health(&health, now);
        assert_eq!(report.state, PlatformStatus::Connecting);
        health.record_ok();
        let heard = health.last_ok_at().unwrap();
        let at = |seconds| {
            let report = PlatformReport::from_health(&health, heard + Duration::from_secs(seconds));
            (report.state, report.last_ok_at)
        };
        assert_eq!(at(149), (PlatformStatus::Connected, Some(heard)));
        assert_eq!(at(151), (PlatformStatus::Deaf, Some(heard)));
        health.record_ok();
        let report = PlatformReport::from_health(&health, SystemTime::now());
        assert_eq!(report.state, PlatformStatus::Connected);
    }

    #[test]
    fn an_outage_of_five_minutes_is_a_degradation() {
        let health = PlatformHealth::new(PERIOD);
        health.record_lost("network", "no route");
        let lost = health.lost_since().unwrap();
        let at = |seconds| {
            PlatformReport::from_health(&health, lost + Duration::from_secs(seconds)).state
        };
        assert_eq!(at(299), PlatformStatus::Reconnecting);
        assert_eq!(at(300), PlatformStatus::Degraded);
    }

    #[test]
    fn a_state_of_an_older_gateway_is_read() {
        let old = r#"{"state":"retrying","error_code":null,"error_message":"x","updated_at":"2026-01-01T00:00:00Z"}"#;
        let state: PlatformState = serde_json::from_str(old).unwrap();
        assert_eq!(state.status(), Some(PlatformStatus::Reconnecting));
        assert_eq!(state.last_ok_at, None);
        let least: PlatformState = serde_json::from_str("{}").unwrap();
        assert_eq!(least.status(), None);
    }
}
