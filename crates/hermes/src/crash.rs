//! What is told when the program itself fails: where and what, and none of the home's secrets.

#![expect(clippy::print_stderr, reason = "whatever would print is in doubt here")]

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    panic::PanicHookInfo,
    sync::OnceLock,
};

use hermes_config::{Home, Redactor, ReferencePolicy, Secret, Settings, Variables};
use serde_json::Value;

/// The home whose secrets are kept out. Known once the arguments are.
static HOME: OnceLock<Home> = OnceLock::new();

/// Takes over from the standard library, which would print the message as it is.
pub(crate) fn install_hook() {
    std::panic::set_hook(Box::new(|crash| {
        // Secrets are gathered now: a program that does not crash has no cost.
        eprintln!("{}", report(crash, &redactor(HOME.get())));
        let backtrace = Backtrace::capture();
        if backtrace.status() == BacktraceStatus::Captured {
            eprintln!("{backtrace}");
        }
    }));
}

/// Says whose secrets are to be kept out.
pub(crate) fn set_home(home: &Home) {
    let _ = HOME.set(home.clone());
    #[cfg(debug_assertions)]
    crash_for_test();
}

/// Panics with this message, so that tests can check that no secret is printed. Not compiled into published builds.
#[cfg(debug_assertions)]
fn crash_for_test() {
    if let Ok(message) = std::env::var("HERMES_TEST_CRASH") {
        std::panic::panic_any(message);
    }
}

fn report(crash: &PanicHookInfo<'_>, redactor: &Redactor) -> String {
    let message = crash.payload_as_str().unwrap_or("for an unknown reason");
    let location = crash.location().map_or_else(
        || "an unknown place".to_owned(),
        |location| format!("{}:{}", location.file(), location.line()),
    );
    let message = redactor.redact(message);
    format!(
        "hermes crashed at {location}: {message}\nThis is a bug in hermes. Please report it with the line above."
    )
}

/// Knows what the home's files hold. Nothing is run for it, and no keyring opened.
fn redactor(home: Option<&Home>) -> Redactor {
    let Some(home) = home else {
        return Redactor::default();
    };
    let (variables, _) = Variables::load(home, None);
    let mut secrets = token_secrets(home);
    if let Ok(settings) = Settings::load(home) {
        for server in settings
            .servers
            .iter()
            .filter_map(|e| e.server.as_ref().ok())
        {
            let resolved = server.resolve(home, &variables, ReferencePolicy::tenant());
            secrets.extend(resolved.into_iter().flat_map(|resolved| resolved.secrets));
        }
    }
    Redactor::for_variables(&variables).with(secrets)
}

/// What a member of a token file is called if nobody else may know it.
const SECRET_NAMES: [&str; 4] = ["token", "secret", "key", "verifier"];

/// What logins have left, finished or not: every text whose name says that it is secret.
fn token_secrets(home: &Home) -> Vec<Secret<String>> {
    let files = std::fs::read_dir(home.tokens_dir()).into_iter().flatten();
    let mut secrets = Vec::new();
    for file in files.flatten() {
        let text = std::fs::read(file.path()).unwrap_or_default();
        collect_secrets(
            &serde_json::from_slice(&text).unwrap_or_default(),
            &mut secrets,
        );
    }
    secrets
}

fn collect_secrets(value: &Value, secrets: &mut Vec<Secret<String>>) {
    let Value::Object(members) = value else {
        return;
    };
    for (name, member) in members {
        match member {
            Value::String(text) if SECRET_NAMES.iter().any(|word| name.contains(word)) => {
                // `token_type` and its like are words, and endpoints are known to everybody.
                if text.len() >= 8 && !text.contains("://") {
                    secrets.push(Secret::new(text.clone()));
                }
            }
            other => collect_secrets(other, secrets),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use hermes_config::SecretStore;

    use super::*;

    /// What would be printed if a thread ended with this message.
    fn crash_report(home: &Home, message: &str) -> String {
        let (sender, receiver) = mpsc::channel();
        let home = home.clone();
        std::panic::set_hook(Box::new(move |crash| {
            let _ = sender.send(report(crash, &redactor(Some(&home))));
        }));
        let message = message.to_owned();
        let ended = std::thread::spawn(move || std::panic::panic_any(message)).join();
        let _ = std::panic::take_hook();
        assert!(ended.is_err());
        receiver.recv().unwrap()
    }

    #[test]
    fn a_crash_names_its_place_and_none_of_the_secrets() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path());
        let write = |name: &str, text: &str| std::fs::write(home.path().join(name), text).unwrap();
        write(".env", "SOME_TOKEN=from-the-env-file\n");
        write(
            "config.yaml",
            "mcp_servers: {a: {url: 'https://x/mcp', headers: {X-Api-Key: written-out, Y: '${keyring:k}'}}}\n",
        );
        std::fs::create_dir(home.tokens_dir()).unwrap();
        write(
            "mcp-tokens/a.json",
            r#"{"access_token": "opaque-oauth-one", "dpop_key": "opaque-key-two"}"#,
        );
        write(
            "mcp-tokens/a.login.json",
            r#"{"verifier": "opaque-pkce-three", "metadata": {"token_endpoint": "https://as.example/token"}}"#,
        );
        let kept = Secret::new("sealed-in-the-home".to_owned());
        SecretStore::file_only(&home).set("k", &kept).unwrap();
        let text = crash_report(
            &home,
            "bad: from-the-env-file written-out sealed-in-the-home opaque-oauth-one opaque-key-two opaque-pkce-three \
             Bearer abcdefgh1234\nat https://as.example/token",
        );
        assert!(text.contains("src/crash.rs:"), "{text}");
        let hidden = ["[REDACTED]"; 7].join(" ");
        let expected = format!("bad: {hidden}\nat https://as.example/token\n");
        assert!(text.contains(&expected), "{text}");
    }

    #[test]
    fn a_crash_in_a_home_that_cannot_be_read_is_still_told() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path());
        std::fs::write(home.config_file(), ": [").unwrap();
        let text = crash_report(&home, "index out of bounds");
        assert!(text.contains("index out of bounds"), "{text}");
    }
}
