//! `WWW-Authenticate`: what a server says about how to be let in.

use serde::{Deserialize, Serialize};

use super::requests::one_line;

/// The challenge to act on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Challenge {
    /// Whether tokens are to be bound to a key.
    #[serde(default, skip_serializing_if = "is_bearer")]
    pub scheme: AuthScheme,
    /// Where the server describes itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_metadata: Option<String>,
    /// What to ask for, separated by spaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Why the request was refused, as a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How often the server asked for a scope that the login had asked for already.
    #[serde(default)]
    pub repeated: u32,
}

/// How a token is presented.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AuthScheme {
    /// Whoever has it may use it.
    #[default]
    Bearer,
    /// With a proof that a key is held.
    #[serde(rename = "DPoP")]
    Dpop,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the shape that serde asks for"
)]
fn is_bearer(scheme: &AuthScheme) -> bool {
    *scheme == AuthScheme::Bearer
}

impl Challenge {
    /// Reads a header's value, in which several challenges may stand. `Bearer` and `DPoP` are the ones to act on.
    pub fn parse(header: &str) -> Self {
        let mut challenge = None;
        for (scheme, parameters) in parse_challenges(header) {
            let scheme = match scheme.to_ascii_lowercase().as_str() {
                "bearer" => AuthScheme::Bearer,
                "dpop" => AuthScheme::Dpop,
                _ => continue,
            };
            let value = |name: &str| {
                let parameter = parameters
                    .iter()
                    .find(|(key, _)| key.eq_ignore_ascii_case(name));
                parameter
                    .map(|(_, value)| value.clone())
                    .filter(|value| !value.is_empty())
            };
            challenge.get_or_insert(Self {
                scheme,
                resource_metadata: value("resource_metadata"),
                scope: value("scope"),
                error: value("error"),
                repeated: 0,
            });
        }
        challenge.unwrap_or_default()
    }

    /// Why a header's value says that a request was refused, in words for a person.
    pub fn reason(header: &str) -> Option<String> {
        let parameters = parse_challenges(header)
            .into_iter()
            .flat_map(|(_, all)| all);
        let parameters: Vec<(String, String)> = parameters.collect();
        let value = |name: &str| {
            let mut given = parameters.iter().filter(|(_, value)| !value.is_empty());
            given.find(|(key, _)| key.eq_ignore_ascii_case(name))
        };
        let (_, reason) = value("error_description").or_else(|| value("error"))?;
        Some(one_line(reason))
    }

    /// Whether the token lacks a right, as opposed to being no good.
    pub fn is_insufficient_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }
}

/// Schemes and their parameters, in order.
fn parse_challenges(header: &str) -> Vec<(String, Vec<(String, String)>)> {
    let mut all: Vec<(String, Vec<(String, String)>)> = Vec::new();
    let mut rest = header.trim_start_matches([' ', ',']);
    while !rest.is_empty() {
        let end = rest.find([' ', ',', '=']).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        match (after.strip_prefix('='), all.last_mut()) {
            (Some(value), Some((_, parameters))) => {
                let (value, after) = parameter_value(value);
                parameters.push((word.to_owned(), value));
                rest = after;
            }
            // A value that belongs to no scheme.
            (Some(value), None) => rest = parameter_value(value).1,
            (None, _) => {
                if !word.is_empty() {
                    all.push((word.to_owned(), Vec::new()));
                }
                rest = after;
            }
        }
        rest = rest.trim_start_matches([' ', ',']);
    }
    all
}

/// A value, quoted or not, and what follows it.
fn parameter_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([' ', ',']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '"' => return (value, &quoted[index + 1..]),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            other => value.push(other),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_quoted_or_not() {
        let challenge = Challenge::parse(
            r#"Bearer scope="a b", resource_metadata="https://x/y?a=1,2", error=insufficient_scope"#,
        );
        assert_eq!(challenge.scope.as_deref(), Some("a b"));
        assert_eq!(
            challenge.resource_metadata.as_deref(),
            Some("https://x/y?a=1,2")
        );
        assert!(challenge.is_insufficient_scope());
    }

    #[test]
    fn the_scheme_to_act_on_is_chosen_among_several() {
        let challenge = Challenge::parse(r#"Basic realm="x", bearer scope="s", Digest nonce="n""#);
        assert_eq!(challenge.scope.as_deref(), Some("s"));
        assert_eq!(challenge.scheme, AuthScheme::Bearer);
        let challenge = Challenge::parse(r#"DPoP algs="ES256", error="use_dpop_nonce""#);
        assert_eq!(challenge.scheme, AuthScheme::Dpop);
    }

    #[test]
    fn people_are_told_the_reason_and_no_parameters() {
        let reason = |header| Challenge::reason(header);
        let full = r#"Bearer error="invalid_token", error_description="It has \"ended\"", resource_metadata="https://x""#;
        assert_eq!(reason(full).as_deref(), Some("It has \"ended\""));
        assert_eq!(
            reason("Basic realm=x, Bearer error=invalid_token").as_deref(),
            Some("invalid_token")
        );
        assert_eq!(reason(r#"Bearer realm="x", error="""#), None);
    }

    #[test]
    fn escapes_and_damage_are_survived() {
        assert_eq!(
            Challenge::parse(r#"Bearer scope="a\"b"#).scope.as_deref(),
            Some("a\"b")
        );
        for odd in [
            "",
            ",,,",
            "=",
            "Bearer",
            "Bearer =",
            "Bearer scope=",
            "\"",
            "a=b",
            "Bearer \\",
        ] {
            assert_eq!(Challenge::parse(odd).scope, None, "{odd}");
        }
    }
}
