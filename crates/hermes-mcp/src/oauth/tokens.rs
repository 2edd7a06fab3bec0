//! Tokens, in the shape in which they are kept. Hermes Agent in Python reads and writes the same file; what it does not
//! know it leaves out, so everything of ours in it is optional.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Tokens are renewed this long before they expire, which also makes up for clocks that differ a little.
const RENEW_BEFORE_EXPIRY: Duration = Duration::from_mins(1);

/// What a login brought. `Debug` shows none of it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Tokens {
    /// What is sent to the server.
    pub access_token: String,
    /// `Bearer` or `DPoP`.
    #[serde(default = "default_token_type")]
    pub token_type: String,
    /// Its life in seconds, when it was new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<u64>,
    /// What it allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// What renews it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<String>,
    /// When it ends, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<f64>,
    /// Who gave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// The name of the server it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The client it was given to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// What was asked for; the answer may have been less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_scope: Option<String>,
    /// The key it is bound to, as PKCS #8 in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dpop_key: Option<String>,
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

fn default_token_type() -> String {
    "Bearer".into()
}

/// Whether a token is still good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenAge {
    Fresh,
    /// It ends soon, has ended, or the clock was changed since it was got.
    Due,
}

impl Tokens {
    /// Completes a file without the end of the token's life: it began when the file was written.
    pub(super) fn with_file_time(mut self, written: SystemTime) -> Self {
        if self.expires_at.is_none()
            && let Some(life) = self.expires_in
        {
            self.expires_at = Some(unix_seconds(written) + to_float_seconds(life));
        }
        self
    }

    pub(super) fn age(&self, now: SystemTime) -> TokenAge {
        let Some(expires_at) = self.expires_at else {
            return TokenAge::Fresh;
        };
        let left = expires_at - unix_seconds(now);
        let was_set_back = self
            .expires_in
            .is_some_and(|life| left > to_float_seconds(life) + RENEW_BEFORE_EXPIRY.as_secs_f64());
        if left <= RENEW_BEFORE_EXPIRY.as_secs_f64() || was_set_back {
            TokenAge::Due
        } else {
            TokenAge::Fresh
        }
    }

    /// Everything that was asked for or given.
    pub(super) fn all_scopes(&self) -> Option<String> {
        let texts = [self.scope.as_deref(), self.requested_scope.as_deref()];
        join_scopes(texts.into_iter().flatten())
    }

    /// When it ends, in whole seconds since 1970.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a time after 1970"
    )]
    pub fn expires_at(&self) -> Option<u64> {
        self.expires_at.map(|time| time.max(0.0) as u64)
    }

    /// The end of a life that begins now.
    pub(super) fn expiry(life: Option<u64>, now: SystemTime) -> Option<f64> {
        life.map(|life| unix_seconds(now) + to_float_seconds(life))
    }
}

fn unix_seconds(time: SystemTime) -> f64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

#[expect(clippy::cast_precision_loss, reason = "no token lives that long")]
fn to_float_seconds(life: u64) -> f64 {
    life as f64
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens")
            .field("token_type", &self.token_type)
            .field("expires_at", &self.expires_at)
            .field("scope", &self.scope)
            .field("issuer", &self.issuer)
            .finish_non_exhaustive()
    }
}

/// The words of both texts, each once, in order.
pub(super) fn join_scopes<'a>(texts: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let mut words: Vec<&str> = Vec::new();
    for word in texts.into_iter().flat_map(str::split_whitespace) {
        if !words.contains(&word) {
            words.push(word);
        }
    }
    (!words.is_empty()).then(|| words.join(" "))
}

/// Whether every word of `wanted` is among those of `had`.
pub(super) fn scope_covers(had: &str, wanted: &str) -> bool {
    let had: Vec<&str> = had.split_whitespace().collect();
    wanted.split_whitespace().all(|word| had.contains(&word))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn tokens(value: Value) -> Tokens {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_token_is_renewed_a_minute_before_its_end() {
        let tokens =
            tokens(json!({"access_token": "a", "expires_in": 3600, "expires_at": 10_000.5}));
        assert_eq!(tokens.age(at(9_939)), TokenAge::Fresh);
        assert_eq!(tokens.age(at(9_941)), TokenAge::Due);
        assert_eq!(tokens.age(at(20_000)), TokenAge::Due);
    }

    #[test]
    fn a_clock_that_was_set_back_makes_a_token_due() {
        let tokens =
            tokens(json!({"access_token": "a", "expires_in": 3600, "expires_at": 100_000.0}));
        assert_eq!(tokens.age(at(50_000)), TokenAge::Due);
        assert_eq!(tokens.age(at(96_400)), TokenAge::Fresh);
    }

    #[test]
    fn a_file_of_the_first_kind_ends_by_its_own_time() {
        let tokens =
            tokens(json!({"access_token": "a", "expires_in": 100})).with_file_time(at(1_000));
        assert_eq!(tokens.expires_at(), Some(1_100));
        let tokens = serde_json::from_value::<Tokens>(json!({"access_token": "a"})).unwrap();
        assert_eq!(
            tokens
                .with_file_time(at(1_000))
                .age(at(u64::from(u32::MAX))),
            TokenAge::Fresh
        );
    }

    #[test]
    fn unknown_members_survive_and_debug_output_is_harmless() {
        let value = json!({"access_token": "hush", "token_type": "Bearer", "refresh_token": "hush", "x": 1});
        let tokens = tokens(value.clone());
        assert_eq!(serde_json::to_value(&tokens).unwrap(), value);
        assert!(!format!("{tokens:?}").contains("hush"));
    }

    #[test]
    fn a_union_keeps_order_and_doubles_nothing() {
        assert_eq!(join_scopes(["b a", " a  c "]).as_deref(), Some("b a c"));
        assert_eq!(join_scopes(["", " "]), None);
    }

    #[test]
    fn a_scope_covers_its_parts() {
        assert!(scope_covers("a b", "b"));
        assert!(scope_covers("a", ""));
        assert!(!scope_covers("ab", "a"));
    }
}
