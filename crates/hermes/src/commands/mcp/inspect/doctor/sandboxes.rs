//! Whether servers that are to be confined are, and by what.

use hermes_config::{Home, ReferencePolicy, Server, Settings, TransportSettings};
use hermes_mcp::process::{
    environment,
    sandbox::{SandboxSupport, target::SandboxTarget},
};

use super::Check;

const ID: &str = "sandbox";

pub(super) fn check(home: &Home, settings: &Settings) -> Vec<Check> {
    let mut confined = settings
        .servers
        .iter()
        .filter_map(|entry| entry.server.as_ref().ok())
        .filter(|server| server.enabled && server.sandbox.enabled)
        .peekable();
    if confined.peek().is_none() {
        return Vec::new();
    }
    let support = SandboxSupport::detect();
    confined
        .flat_map(|server| check_server(home, settings, server, support))
        .collect()
}

/// Says nothing of remote servers, or where a reference or the program is missing, which is told elsewhere.
fn check_server(
    home: &Home,
    settings: &Settings,
    server: &Server,
    support: SandboxSupport,
) -> Vec<Check> {
    let resolved = server.resolve(home, &settings.variables, ReferencePolicy::owner());
    let Ok(resolved) = resolved else {
        return Vec::new();
    };
    let TransportSettings::Stdio(stdio) = &resolved.transport else {
        return Vec::new();
    };
    let environment = environment::build_environment(std::env::vars_os(), &stdio.env);
    let program = environment::find_program(&stdio.command, &environment, home.path());
    let Ok(program) = program else {
        return Vec::new();
    };
    let cwd = match &stdio.cwd {
        Some(cwd) => environment::expand_home(cwd, &environment),
        None => std::env::current_dir().unwrap_or_default(),
    };
    let subject = SandboxTarget {
        server: &server.name,
        settings: &resolved.sandbox,
        program: &program,
        environment: &environment,
        cwd: &cwd,
        home,
    };
    match subject.plan_sandbox(support) {
        Err(refused) => vec![
            Check::fail(ID, refused.to_string())
                .split_advice()
                .about(&server.name),
        ],
        Ok(confined) if confined.warnings.is_empty() => {
            let message = match confined.open_sockets_note() {
                Some(note) => format!("{confined}: {note}"),
                None => confined.to_string(),
            };
            vec![Check::ok(ID, message).about(&server.name)]
        }
        Ok(confined) => confined
            .warnings
            .iter()
            .map(|warning| Check::warn(ID, warning).about(&server.name))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::CheckLevel, *};

    const FULL: SandboxSupport = SandboxSupport {
        landlock: Some(6),
        seccomp: true,
    };

    fn checks(sandbox: &str, support: SandboxSupport) -> Vec<Check> {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path());
        let text = format!("mcp_servers:\n  s:\n    command: /bin/cat\n    sandbox: {sandbox}\n");
        std::fs::write(home.config_file(), text).unwrap();
        let settings = Settings::load(&home).unwrap();
        let server = settings.servers[0].server.as_ref().unwrap();
        check_server(&home, &settings, server, support)
    }

    #[test]
    fn what_is_in_force_is_said() {
        let checks = checks("{enabled: true, network: deny}", FULL);
        assert_eq!(checks[0].level, CheckLevel::Ok);
        assert!(checks[0].message.contains("network denied"), "{checks:?}");
    }

    #[test]
    fn unix_sockets_that_are_left_open_are_told_with_how_to_close_them() {
        let open = checks("true", FULL);
        assert_eq!(open[0].level, CheckLevel::Ok);
        let message = &open[0].message;
        assert!(
            message.contains("every Unix socket") && message.contains("unix_sockets: deny"),
            "{message}"
        );
        for closed in [
            "{enabled: true, unix_sockets: deny}",
            "{enabled: true, network: deny}",
        ] {
            let message = &checks(closed, FULL)[0].message;
            assert!(!message.contains("every Unix socket"), "{message}");
        }
        let unfiltered = SandboxSupport {
            seccomp: false,
            ..FULL
        };
        let unheard = checks("{enabled: true, unix_sockets: deny}", unfiltered);
        assert_eq!(unheard[0].level, CheckLevel::Warn);
        assert!(unheard[0].message.contains("Unix sockets"), "{unheard:?}");
    }

    #[test]
    fn a_kernel_without_support_is_a_warning_and_where_it_is_required_a_failure() {
        let wished = checks("true", SandboxSupport::NONE);
        assert_eq!(wished[0].level, CheckLevel::Warn);
        assert!(wished[0].message.contains("no Landlock"), "{wished:?}");
        let required = checks("{enabled: true, required: true}", SandboxSupport::NONE);
        assert_eq!(required[0].level, CheckLevel::Fail);
        assert!(required[0].fix.is_some(), "{required:?}");
    }

    #[test]
    fn a_path_that_does_not_exist_is_worth_a_word() {
        let checks = checks("{enabled: true, read: [/nowhere]}", FULL);
        assert_eq!(checks[0].level, CheckLevel::Warn);
        assert!(checks[0].message.contains("`/nowhere`"), "{checks:?}");
    }
}
