//! Generated credentials of every kind in generated surroundings: none gets through.

use proptest::prelude::*;

use super::*;

/// A credential, and the part of it that must not be left.
fn credential() -> impl Strategy<Value = (String, String)> {
    let whole = |text: String| (text.clone(), text);
    let named = |name: &str, value: String| (format!("{name}={value}"), value);
    prop_oneof![
        "(ghp|gho|ghs|ghu)_[A-Za-z0-9]{10,40}".prop_map(whole),
        "github_pat_[A-Za-z0-9_]{10,60}".prop_map(whole),
        "sk-(proj-|ant-)?[A-Za-z0-9_-]{10,60}".prop_map(whole),
        "xox[abprs]-[0-9]{6,12}-[A-Za-z0-9]{10,20}".prop_map(whole),
        "AKIA[0-9A-Z]{16}".prop_map(whole),
        "eyJ[A-Za-z0-9_-]{8,30}\\.[A-Za-z0-9_-]{8,30}\\.[A-Za-z0-9_-]{8,30}".prop_map(whole),
        "[A-Za-z0-9._~+/-]{16,40}".prop_map(|token| (format!("Bearer {token}"), token)),
        "[A-Za-z0-9+/]{20,40}={0,2}".prop_map(|code| (format!("Basic {code}"), code)),
        (secret_name(), "[A-Za-z0-9!#$%*+./:?@^_~-]{6,30}")
            .prop_map(move |(name, value)| named(&name, value)),
        (secret_name(), "[A-Za-z0-9 !#$%&*,;]{6,30}")
            .prop_map(|(name, value)| (format!("\"{name}\": \"{value}\""), value)),
        "[a-z]{3,8}:[A-Za-z0-9!$*._~-]{6,20}"
            .prop_map(|login| (format!("https://{login}@host.example/x"), login)),
    ]
}

fn secret_name() -> impl Strategy<Value = String> {
    let names = [
        "token",
        "key",
        "API_KEY",
        "password",
        "secret",
        "GITHUB_TOKEN",
        "client_secret",
        "accessToken",
    ];
    proptest::sample::select(names.to_vec()).prop_map(str::to_owned)
}

/// What stands around a credential in messages. It ends one, but is not part of one.
fn frame() -> impl Strategy<Value = (String, String)> {
    let frames = [
        ("", ""),
        ("error: ", " was refused"),
        ("line one\n", "\nline three"),
        ("(", ")"),
        ("größer → ", " ← kleiner"),
        ("status 401, ", ", try again"),
        ("[", "]"),
    ];
    proptest::sample::select(frames.to_vec()).prop_map(|(a, b)| (a.to_owned(), b.to_owned()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_generated_credential_is_left(
        (text, secret) in credential(),
        (before, after) in frame(),
    ) {
        let message = format!("{before}{text}{after}");
        let redactor = Redactor::default();
        let redacted = redactor.redact(&message).into_owned();
        prop_assert!(redacted.contains(REPLACEMENT), "{message} -> {redacted}");
        prop_assert!(!redacted.contains(&secret), "{message} -> {redacted}");
        prop_assert_eq!(&redactor.redact(&redacted), &redacted, "again changes nothing");
    }

    #[test]
    fn no_own_secret_is_left_in_any_spelling(
        secret in "\\PC{6,60}",
        before in "\\PC{0,20}",
        after in "\\PC{0,20}",
        shout in any::<bool>(),
    ) {
        let redactor = Redactor::new([Secret::new(secret.clone())]);
        for spelling in spellings(&secret) {
            let spelling = if shout { spelling.to_ascii_uppercase() } else { spelling };
            let message = format!("{before} {spelling} {after}");
            let redacted = redactor.redact(&message).to_ascii_lowercase();
            let rest = redacted.replace(&REPLACEMENT.to_ascii_lowercase(), "\u{1}");
            prop_assert!(
                !rest.contains(&spelling.to_ascii_lowercase()),
                "{message} -> {redacted}"
            );
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}", secret in "\\PC{0,10}") {
        Redactor::new([Secret::new(secret)]).redact(&text);
    }
}
