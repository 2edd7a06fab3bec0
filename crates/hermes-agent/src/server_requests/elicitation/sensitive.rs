//! Detects fields that ask for secrets, which no server should do in a form.

/// Terms for secrets, also as a part of a name.
const SECRET_TERMS: [&str; 13] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "token",
    "credential",
    "api key",
    "apikey",
    "access key",
    "private key",
    "security code",
    "kennwort",
];
/// Short terms that only count as whole words.
const SHORT_SECRET_WORDS: [&str; 6] = ["pin", "otp", "cvv", "cvc", "ssn", "key"];

/// Whether a field asks for a password, a token or a key.
pub(super) fn asks_for_secret(name: &str, title: &str, description: Option<&str>) -> bool {
    names_secret(name) || names_secret(title) || description.is_some_and(mentions_secret)
}

fn names_secret(text: &str) -> bool {
    let text = words(text);
    SECRET_TERMS.iter().any(|secret| text.contains(secret))
        || text
            .split(' ')
            .any(|word| SHORT_SECRET_WORDS.contains(&word))
}

/// A description is prose: "the key of the song" is not a secret.
fn mentions_secret(text: &str) -> bool {
    let text = words(text);
    SECRET_TERMS.iter().any(|secret| text.contains(secret))
}

/// `apiKey`, `api_key` and `API-Key` are all `api key`.
fn words(text: &str) -> String {
    let mut words = String::with_capacity(text.len() + 4);
    let mut was_lower = false;
    for character in text.chars() {
        if character.is_uppercase() && was_lower {
            words.push(' ');
        }
        was_lower = character.is_lowercase();
        if character.is_alphanumeric() {
            words.extend(character.to_lowercase());
        } else {
            words.push(' ');
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_recognised_however_they_are_spelt() {
        for name in [
            "password",
            "user_password",
            "apiKey",
            "API-Key",
            "githubToken",
            "client_secret",
            "PIN",
            "key",
            "accessKey",
        ] {
            assert!(asks_for_secret(name, name, None), "{name}");
        }
        assert!(asks_for_secret("x", "X", Some("Enter your API key")));
    }

    #[test]
    fn ordinary_fields_are_left_alone() {
        for name in ["name", "email", "keyboard", "pinned", "turkey", "shipping"] {
            assert!(
                !asks_for_secret(name, name, Some("The key of the song")),
                "{name}"
            );
        }
    }
}
