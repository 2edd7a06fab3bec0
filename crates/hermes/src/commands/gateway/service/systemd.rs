//! The systemd user service of a home.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use hermes_config::Home;

use super::{InstalledService, MARKER, ServicePlan, home_suffix, run_quietly};
use crate::failure::Failure;

/// The service is killed and started again when it has said nothing for so long.
const WATCHDOG_SECONDS: u64 = 90;
/// The exit code of a configuration that cannot be used; starting again would not help.
pub(super) const BAD_CONFIGURATION: u8 = 78;

fn unit_name(home: &Home) -> String {
    format!("hermes-gateway{}.service", home_suffix(home))
}

fn unit_dir() -> Option<PathBuf> {
    let config = std::env::var_os("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| std::env::home_dir().map(|home| home.join(".config")))?;
    Some(config.join("systemd").join("user"))
}

fn systemctl(arguments: &[&str]) -> Command {
    let mut command = Command::new("systemctl");
    command.arg("--user").args(arguments);
    command
}

/// Whether the user's systemd answers.
pub(super) fn is_available() -> bool {
    run_quietly(&mut systemctl(&["show", "--property=Version"])).is_ok()
}

pub(super) fn find_installed(home: &Home) -> Option<InstalledService> {
    let name = unit_name(home);
    let path = unit_dir()?.join(&name);
    let text = fs::read_to_string(&path).ok()?;
    let shown = run_quietly(&mut systemctl(&[
        "show",
        &name,
        "--property=ActiveState",
        "--property=UnitFileState",
    ]));
    Some(InstalledService {
        state: shown.ok().and_then(|shown| parse_state(&shown)),
        is_ours: text.contains(MARKER),
        name,
        path,
    })
}

/// `active, enabled` from the properties that `systemctl show` prints.
fn parse_state(shown: &str) -> Option<String> {
    let value = |key: &str| {
        let line = shown.lines().find_map(|line| line.strip_prefix(key));
        line.filter(|value| !value.is_empty())
    };
    let active = value("ActiveState=")?;
    Some(match value("UnitFileState=") {
        Some(file) => format!("{active}, {file}"),
        None => active.to_owned(),
    })
}

/// Other units that run a gateway of this home: of the user, and of the system.
pub(super) fn find_foreign(home: &Home) -> Vec<PathBuf> {
    let own = unit_name(home);
    let places = unit_dir()
        .into_iter()
        .chain([PathBuf::from("/etc/systemd/system")]);
    let units = places.flat_map(|place| units_in(&place));
    let foreign = units.filter(|(path, text)| {
        let is_own = path.file_name().is_some_and(|name| name == own.as_str());
        !is_own && !text.contains(MARKER) && runs_gateway(text)
    });
    foreign.map(|(path, _)| path).collect()
}

fn units_in(directory: &Path) -> Vec<(PathBuf, String)> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let units = paths.filter(|path| path.extension().is_some_and(|it| it == "service"));
    let mut units: Vec<(PathBuf, String)> = units
        .filter_map(|path| Some((path.clone(), fs::read_to_string(path).ok()?)))
        .collect();
    units.sort();
    units
}

/// Whether a unit starts a gateway, of Python Hermes (`hermes_cli.main gateway run`) or another build of ours.
fn runs_gateway(unit: &str) -> bool {
    let mut starts = unit.lines().filter(|line| line.starts_with("ExecStart="));
    starts.any(|line| line.contains("hermes") && line.contains("gateway"))
}

pub(super) fn install(home: &Home, plan: &ServicePlan) -> Result<InstalledService, Failure> {
    let directory = unit_dir().ok_or_else(|| Failure::failed("the user has no home directory"))?;
    let path = directory.join(unit_name(home));
    fs::create_dir_all(&directory)?;
    fs::write(&path, unit_text(plan))?;
    run_quietly(&mut systemctl(&["daemon-reload"]))?;
    run_quietly(&mut systemctl(&["enable", &unit_name(home)]))?;
    find_installed(home).ok_or_else(|| Failure::failed("the unit file was removed meanwhile"))
}

pub(super) fn uninstall(service: &InstalledService) -> Result<(), Failure> {
    // Without a running systemd the file can go all the same.
    let disabled = run_quietly(&mut systemctl(&["disable", "--now", &service.name]));
    fs::remove_file(&service.path)?;
    if disabled.is_ok() {
        run_quietly(&mut systemctl(&["daemon-reload"]))?;
    }
    Ok(())
}

pub(super) fn start(service: &InstalledService) -> Result<(), Failure> {
    drive(service, "start")
}

pub(super) fn restart(service: &InstalledService) -> Result<(), Failure> {
    drive(service, "restart")
}

pub(super) fn stop(service: &InstalledService) -> Result<(), Failure> {
    drive(service, "stop")
}

fn drive(service: &InstalledService, verb: &str) -> Result<(), Failure> {
    let done = run_quietly(&mut systemctl(&[verb, &service.name]));
    done.map(drop).map_err(|failure| {
        failure.hint(format!(
            "`journalctl --user -u {} -n 50` shows why",
            service.name
        ))
    })
}

/// Whether the user's services run without a login.
pub(super) fn stays_after_logout() -> bool {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME"));
    user.is_ok_and(|user| Path::new("/var/lib/systemd/linger").join(user).exists())
}

/// Tokens are in the home's `.env`, which the gateway reads itself: none is in the unit.
fn unit_text(plan: &ServicePlan) -> String {
    let mut text = format!(
        "# {MARKER}; the next install replaces changes.\n\
         [Unit]\n\
         Description=Hermes gateway ({})\n\
         StartLimitIntervalSec=600\n\
         StartLimitBurst=10\n\
         \n\
         [Service]\n\
         Type=notify\n\
         NotifyAccess=main\n\
         ExecStart={} gateway run\n\
         Environment={}\n",
        plan.home.display().to_string().replace('%', "%%"),
        quote(&plan.program.to_string_lossy()).replace('$', "$$"),
        quote(&format!("HERMES_HOME={}", plan.home.display())),
    );
    for (name, value) in &plan.environment {
        let _ = writeln!(text, "Environment={}", quote(&format!("{name}={value}")));
    }
    let _ = write!(
        text,
        "WorkingDirectory=%h\n\
         Restart=on-failure\n\
         RestartSec=5\n\
         RestartPreventExitStatus={BAD_CONFIGURATION}\n\
         WatchdogSec={WATCHDOG_SECONDS}\n\
         TimeoutStartSec=120\n\
         TimeoutStopSec={}\n\
         KillMode=mixed\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n",
        plan.stop_seconds
    );
    text
}

/// One word of a unit file.
fn quote(word: &str) -> String {
    let escaped = word
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('%', "%%");
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> ServicePlan {
        ServicePlan {
            program: "/opt/my apps/hermes".into(),
            home: "/home/ann/100%".into(),
            environment: vec![("PATH", "/usr/bin:/bin".into())],
            log: "/home/ann/x.log".into(),
            stop_seconds: 42,
        }
    }

    #[test]
    fn the_unit_tells_when_it_is_ready_and_is_not_repeated_for_a_bad_configuration() {
        let text = unit_text(&plan());
        for line in [
            "Type=notify",
            "WatchdogSec=90",
            "RestartPreventExitStatus=78",
            "ExecStart=\"/opt/my apps/hermes\" gateway run",
            "Environment=\"HERMES_HOME=/home/ann/100%%\"",
            "Environment=\"PATH=/usr/bin:/bin\"",
            "TimeoutStopSec=42",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} in\n{text}");
        }
        assert!(!text.contains("--replace"));
        assert!(text.contains(MARKER));
    }

    #[test]
    fn a_unit_of_python_hermes_is_known_by_its_command() {
        let python = "[Service]\nExecStart=/home/a/.hermes/venv/bin/python -m hermes_cli.main gateway run --replace\n";
        assert!(runs_gateway(python));
        assert!(!runs_gateway("[Service]\nExecStart=/usr/bin/nginx\n"));
    }

    #[test]
    fn the_state_is_active_and_enabled() {
        assert_eq!(
            parse_state("ActiveState=active\nUnitFileState=enabled\n").as_deref(),
            Some("active, enabled")
        );
        assert_eq!(
            parse_state("ActiveState=inactive\nUnitFileState=\n").as_deref(),
            Some("inactive")
        );
        assert_eq!(parse_state(""), None);
    }
}
