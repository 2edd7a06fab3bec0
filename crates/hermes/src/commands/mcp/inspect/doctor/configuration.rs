//! Whether `config.yaml` says what can be used: its text, its keys, its entries, its references.

use hermes_config::{Home, ReferencePolicy, ServerEntryError, Settings, SettingsError};

use super::Check;

const FILE: &str = "config";
const KEYS: &str = "keys";
const ENTRY: &str = "entry";
const REFERENCE: &str = "reference";

pub(super) fn unreadable(error: &SettingsError) -> Check {
    Check::fail(FILE, error.to_string()).split_advice()
}

pub(super) fn check(home: &Home, settings: &Settings) -> Vec<Check> {
    let path = home.config_file();
    let mut checks = vec![if path.exists() {
        Check::ok(FILE, format!("`{}` can be read", path.display()))
    } else {
        Check::warn(FILE, format!("`{}` does not exist", path.display()))
            .fix("`hermes up` writes one with examples, `hermes mcp add` one with a server")
    }];
    for warning in &settings.warnings {
        checks.push(
            Check::warn(KEYS, warning.to_string())
                .fix("correct it; docs/reference/configuration.md lists every key"),
        );
    }
    for entry in &settings.servers {
        match &entry.server {
            // That is told apart from mistakes.
            Err(ServerEntryError::Suspicious(_)) => {}
            Err(problem) => {
                checks.push(
                    Check::fail(ENTRY, problem.to_string())
                        .split_advice()
                        .about(&entry.name),
                );
            }
            Ok(server) if server.enabled => {
                let resolved = server.resolve(home, &settings.variables, ReferencePolicy::owner());
                match resolved {
                    Err(error) => {
                        checks.push(Check::fail(REFERENCE, error.to_string()).about(&entry.name));
                    }
                    Ok(resolved) => {
                        checks.extend(resolved.warnings.iter().map(|warning| {
                            Check::warn(REFERENCE, warning.to_string())
                                .split_advice()
                                .about(&entry.name)
                        }));
                    }
                }
            }
            Ok(_) => {}
        }
    }
    checks
}
