//! Files of a home that are never copied.

/// Names of credential files and directories.
const SECRET_NAMES: [&str; 18] = [
    ".env",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".ssh",
    ".gnupg",
    ".anthropic_oauth.json",
    "auth",
    "auth.json",
    "auth.lock",
    "credentials",
    "credentials.json",
    "mcp-tokens",
    "pairing",
    "secrets",
    "secrets.json",
    "webhook_subscriptions.json",
];
/// Prefixes and suffixes of key files and token stores.
const SECRET_PREFIXES: [&str; 4] = [".env.", "id_rsa", "id_ed25519", "id_ecdsa"];
const SECRET_SUFFIXES: [&str; 9] = [
    ".env",
    ".key",
    ".pem",
    ".p12",
    ".pfx",
    ".keystore",
    ".token",
    "_token.json",
    "tokens.json",
];

/// Whether a path or one of its directories is secret.
pub(super) fn is_secret(path: &str) -> bool {
    path.split('/').any(|name| {
        let name = name.to_ascii_lowercase();
        SECRET_NAMES.contains(&name.as_str())
            || SECRET_PREFIXES.iter().any(|start| name.starts_with(start))
            || SECRET_SUFFIXES.iter().any(|end| name.ends_with(end))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_secret_wherever_they_lie() {
        for path in [
            ".env",
            "skills/x/.env",
            ".env.local",
            "prod.env",
            "auth.json",
            "AUTH.JSON",
            "context/server.key",
            "context/ca.PEM",
            "mcp-tokens/github.json",
            "secrets.json",
            "secrets.key",
            "skills/x/tokens.json",
            "skills/x/oauth_token.json",
            "context/id_rsa",
        ] {
            assert!(is_secret(path), "{path}");
        }
    }

    #[test]
    fn words_about_secrets_are_none() {
        for path in [
            "SOUL.md",
            "context/environment.md",
            "skills/keys/SKILL.md",
            "memories/tokens.md",
            "context/author.json",
        ] {
            assert!(!is_secret(path), "{path}");
        }
    }
}
