//! Ids of tenants, groups, jobs, runs, tokens and approvals. A value of these types is well formed.

use std::{borrow::Cow, fmt};

use hermes_config::random::{RandomError, random_hex};

pub(crate) use hermes_config::{from_hex as unhex, to_hex as hex};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

/// Names that a tenant or group cannot have, because they name parts of the Hub.
const RESERVED_NAMES: [&str; 3] = ["hub", "shares", "sync"];

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a valid {kind} id: {rule}")]
pub struct InvalidId {
    text: String,
    kind: &'static str,
    rule: &'static str,
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $is_valid:expr, $pattern:literal, $rule:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Takes a text for an id, if it is well formed.
            pub fn parse(text: &str) -> Result<Self, InvalidId> {
                let is_valid: fn(&str) -> bool = $is_valid;
                if is_valid(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(InvalidId { text: text.chars().take(80).collect(), kind: $kind, rule: $rule })
                }
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string", "pattern": $pattern})
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::parse(&text).map_err(serde::de::Error::custom)
            }
        }
    };
}

id! {
    /// A tenant.
    TenantId, "tenant", is_slug, "^[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?$",
    "1 to 64 of a-z, 0-9, `_` and `-`, beginning and ending with a letter or digit; `hub`, `shares` and `sync` are taken"
}
id! {
    /// A group, whose members share files.
    GroupId, "group", is_slug, "^[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?$",
    "1 to 64 of a-z, 0-9, `_` and `-`, beginning and ending with a letter or digit; `hub`, `shares` and `sync` are taken"
}
id! {
    /// A cron job of a tenant.
    JobId, "job", is_job, "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$",
    "1 to 64 letters, digits, `_` and `-`, beginning with a letter or digit"
}
id! {
    /// A run of a tenant's agent: `run_` and 32 hexadecimal digits.
    RunId, "run", is_run, "^run_[0-9a-f]{32}$",
    "`run_` and 32 hexadecimal digits"
}
id! {
    /// A management token: `tok_` and letters and digits.
    TokenId, "token", is_token, "^tok_[A-Za-z0-9]{1,32}$",
    "`tok_` and up to 32 letters and digits"
}
id! {
    /// Something a run waits for a decision on: `apr_` and 24 hexadecimal digits.
    ApprovalId, "approval", is_approval, "^apr_[0-9a-f]{24}$",
    "`apr_` and 24 hexadecimal digits"
}

id! {
    /// An address that gets events: `whk_` and 24 hexadecimal digits.
    WebhookId, "webhook", is_webhook, "^whk_[0-9a-f]{24}$",
    "`whk_` and 24 hexadecimal digits"
}
id! {
    /// An event for a webhook: `msg_` and 24 hexadecimal digits.
    DeliveryId, "delivery", is_delivery, "^msg_[0-9a-f]{24}$",
    "`msg_` and 24 hexadecimal digits"
}

id! {
    /// Somebody's session in the console: `ses_` and 24 hexadecimal digits.
    ConsoleSessionId, "session", is_console_session, "^ses_[0-9a-f]{24}$",
    "`ses_` and 24 hexadecimal digits"
}

impl ConsoleSessionId {
    pub fn random() -> Result<Self, RandomError> {
        Ok(Self(format!("ses_{}", random_hex::<12>()?)))
    }
}

impl TenantId {
    pub fn random() -> Result<Self, RandomError> {
        Ok(Self(format!("tenant_{}", random_hex::<6>()?)))
    }
}

impl JobId {
    /// In the format that agents use.
    pub fn random() -> Result<Self, RandomError> {
        Ok(Self(random_hex::<6>()?))
    }
}

impl RunId {
    pub fn random() -> Result<Self, RandomError> {
        Ok(Self(format!("run_{}", random_hex::<16>()?)))
    }
}

impl TokenId {
    /// The id of callers without a token, on public routes.
    pub(crate) fn anonymous() -> Self {
        Self("tok_0".into())
    }

    /// The id of somebody whom an identity provider knows. No token has such an id.
    pub(crate) fn for_person(subject: &str) -> Self {
        Self(format!("person:{subject}"))
    }

    /// The id of a tenant's agent on the private routes. No token has such an id.
    pub(crate) fn for_tenant(tenant: &TenantId) -> Self {
        Self(format!("tenant:{tenant}"))
    }

    pub fn random() -> Result<Self, RandomError> {
        Ok(Self(format!("tok_{}", random_hex::<5>()?)))
    }
}

impl ApprovalId {
    pub fn random() -> Result<Self, RandomError> {
        Ok(Self(format!("apr_{}", random_hex::<12>()?)))
    }
}

impl WebhookId {
    pub fn random() -> Result<Self, RandomError> {
        Ok(Self(format!("whk_{}", random_hex::<12>()?)))
    }
}

impl DeliveryId {
    pub fn random() -> Result<Self, RandomError> {
        Ok(Self(format!("msg_{}", random_hex::<12>()?)))
    }
}

fn is_slug(text: &str) -> bool {
    let inner = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
    let edge =
        |byte: Option<&u8>| byte.is_some_and(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9'));
    let bytes = text.as_bytes();
    bytes.len() <= 64
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().copied().all(inner)
        && !RESERVED_NAMES.contains(&text)
}

fn is_job(text: &str) -> bool {
    text.len() <= 64
        && text
            .bytes()
            .next()
            .is_some_and(|byte| byte.is_ascii_alphanumeric())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

fn is_run(text: &str) -> bool {
    text.strip_prefix("run_").is_some_and(|digits| {
        digits.len() == 32
            && digits
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

fn is_token(text: &str) -> bool {
    text.strip_prefix("tok_").is_some_and(|rest| {
        (1..=32).contains(&rest.len()) && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

fn is_approval(text: &str) -> bool {
    has_hex_digits(text, "apr_")
}

fn is_webhook(text: &str) -> bool {
    has_hex_digits(text, "whk_")
}

fn is_console_session(text: &str) -> bool {
    has_hex_digits(text, "ses_")
}

fn is_delivery(text: &str) -> bool {
    has_hex_digits(text, "msg_")
}

/// Whether a text is this beginning and 24 hexadecimal digits.
fn has_hex_digits(text: &str, beginning: &str) -> bool {
    text.strip_prefix(beginning).is_some_and(|digits| {
        digits.len() == 24
            && digits
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// The agent's id of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRunId(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ids_of_the_documents_are_well_formed() {
        assert!(TenantId::parse("tenant_123").is_ok());
        assert!(GroupId::parse("division1").is_ok());
        assert!(JobId::parse("job_123").is_ok());
        assert!(RunId::parse(&format!("run_{}", "0f".repeat(16))).is_ok());
    }

    #[test]
    fn ids_that_could_be_paths_or_parts_of_the_hub_are_refused() {
        for text in [
            "", "-a", "a-", "A", "a/b", "..", "a.b", "hub", "shares", "sync", "ä",
        ] {
            assert!(TenantId::parse(text).is_err(), "{text:?} was taken");
        }
        assert!(TenantId::parse(&"a".repeat(64)).is_ok());
        assert!(TenantId::parse(&"a".repeat(65)).is_err());
        for text in ["", "_a", "a b", "a/b", "../a"] {
            assert!(JobId::parse(text).is_err(), "{text:?} was taken");
        }
        assert!(RunId::parse("run_12").is_err());
    }

    #[test]
    fn the_patterns_of_the_schemas_say_the_same_as_the_checks() {
        fn agree<T: JsonSchema>(parse: fn(&str) -> bool) {
            let schema = schemars::schema_for!(T);
            let pattern = schema.get("pattern").and_then(serde_json::Value::as_str);
            let pattern = regex::Regex::new(pattern.unwrap()).unwrap();
            let digits = "0123456789abcdef".repeat(4);
            let texts = [
                "",
                "a",
                "A",
                "-a",
                "a-",
                "a_b",
                "a/b",
                "a\n",
                "a".repeat(64).as_str(),
                &"a".repeat(65),
                "run_0",
                &format!("run_{}", &digits[..32]),
                "tok_7",
                "tok_",
                &format!("tok_{}", "x".repeat(33)),
                &format!("apr_{}", &digits[..24]),
                "apr_zz",
                &format!("whk_{}", &digits[..24]),
                &format!("msg_{}", &digits[..24]),
                "ä",
            ]
            .map(str::to_owned);
            for text in texts {
                assert_eq!(
                    pattern.is_match(&text),
                    parse(&text),
                    "{text:?} as {}",
                    T::schema_name()
                );
            }
        }
        agree::<TenantId>(|text| TenantId::parse(text).is_ok());
        agree::<GroupId>(|text| GroupId::parse(text).is_ok());
        agree::<JobId>(|text| JobId::parse(text).is_ok());
        agree::<RunId>(|text| RunId::parse(text).is_ok());
        agree::<TokenId>(|text| TokenId::parse(text).is_ok());
        agree::<ApprovalId>(|text| ApprovalId::parse(text).is_ok());
        agree::<WebhookId>(|text| WebhookId::parse(text).is_ok());
        agree::<DeliveryId>(|text| DeliveryId::parse(text).is_ok());
    }

    #[test]
    fn made_ids_are_well_formed() {
        assert!(TenantId::parse(TenantId::random().unwrap().as_str()).is_ok());
        assert!(JobId::parse(JobId::random().unwrap().as_str()).is_ok());
        assert!(RunId::parse(RunId::random().unwrap().as_str()).is_ok());
        assert!(TokenId::parse(TokenId::random().unwrap().as_str()).is_ok());
        assert!(ApprovalId::parse(ApprovalId::random().unwrap().as_str()).is_ok());
    }
}
