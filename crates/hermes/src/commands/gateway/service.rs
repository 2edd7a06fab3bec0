//! The gateway as a service of the user: `install`, `uninstall`, `start`, `restart` and `stop`.
//!
//! On Linux it is a systemd user service, on macOS a launch agent. Where there is neither, or it is not installed,
//! `start` runs the gateway in the background, and nobody starts it again.

mod background;
mod launchd;
mod systemd;

use std::{io, path::PathBuf, process::Command};

use hermes_config::Home;
use hermes_gateway::instance;
use serde::Serialize;
use serde_json::json;

use super::{stop_gateway, wait_until_running};
use crate::{
    cli::GatewayInstallArgs,
    context::Context,
    failure::{Failure, FailureKind},
};

/// The first words of every file that we write, by which we know it again.
const MARKER: &str = "Written by `hermes gateway install`";

/// A service that is installed under our name.
#[derive(Debug, Clone, Serialize)]
pub(super) struct InstalledService {
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// Whether we wrote it.
    pub(super) is_ours: bool,
    /// What the service manager says.
    pub(super) state: Option<String>,
}

impl InstalledService {
    fn is_active(&self) -> bool {
        let state = self.state.as_deref().unwrap_or_default();
        state.starts_with("active") || state.starts_with("activating") || state == "running"
    }
}

/// What a service file is made from.
struct ServicePlan {
    program: PathBuf,
    home: PathBuf,
    /// What the service keeps of the environment: where servers such as `npx` are found, and which authorities are
    /// trusted. Tokens and proxies, which may have a password, are read from `.env`.
    environment: Vec<(&'static str, String)>,
    log: PathBuf,
    stop_seconds: u64,
}

impl ServicePlan {
    fn new(context: &Context) -> Result<Self, Failure> {
        let drain = context.written_settings()?.agent.restart_drain_timeout;
        Ok(Self {
            program: std::env::current_exe()?,
            home: std::path::absolute(context.home.path())?,
            environment: kept_variables(),
            log: background::log_file(&context.home),
            stop_seconds: (drain + super::STOP_MARGIN).as_secs(),
        })
    }
}

fn kept_variables() -> Vec<(&'static str, String)> {
    let names = ["PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"].into_iter();
    let set = names.filter_map(|name| Some((name, std::env::var(name).ok()?)));
    set.filter(|(_, value)| !value.is_empty()).collect()
}

/// The service manager of this system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServiceManager {
    Systemd,
    Launchd,
}

impl ServiceManager {
    /// None in most containers, and where the user's systemd cannot be reached.
    fn detect() -> Option<Self> {
        if cfg!(target_os = "macos") {
            return Some(Self::Launchd);
        }
        systemd::is_available().then_some(Self::Systemd)
    }
}

/// The service of a home, if one is installed.
pub(super) fn find_installed(home: &Home) -> Option<InstalledService> {
    if cfg!(target_os = "macos") {
        launchd::find_installed(home)
    } else {
        systemd::find_installed(home)
    }
}

/// The part of a service's name that tells this home from others. The usual home has none.
fn home_suffix(home: &Home) -> String {
    let path = std::path::absolute(home.path()).unwrap_or_else(|_| home.path().to_owned());
    let usual = std::env::home_dir().map(|user| user.join(".hermes"));
    if usual.as_deref() == Some(path.as_path()) {
        return String::new();
    }
    let is_profile = path
        .parent()
        .is_some_and(|parent| parent.ends_with("profiles"));
    let name = match path.file_name() {
        Some(name) if is_profile => name.to_string_lossy().into_owned(),
        _ => path.to_string_lossy().into_owned(),
    };
    let words: Vec<&str> = name
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    format!("-{}", words.join("-"))
}

pub(super) fn install(context: &Context, args: &GatewayInstallArgs) -> Result<(), Failure> {
    let plan = ServicePlan::new(context)?;
    let Some(manager) = ServiceManager::detect() else {
        return Err(no_service_manager(&plan));
    };
    if let Some(foreign) = find_installed(&context.home).filter(|found| !found.is_ours)
        && !args.force
    {
        return Err(Failure::failed(format!(
            "`{}` exists and was not written by this program",
            foreign.path.display()
        ))
        .hint("two gateways with the same bot would take messages from each other: stop and remove that service first")
        .hint("`hermes gateway install --force` replaces it"));
    }
    let others = match manager {
        ServiceManager::Systemd => systemd::find_foreign(&context.home),
        ServiceManager::Launchd => launchd::find_foreign(&context.home),
    };
    for other in &others {
        context.output.warning(format!(
            "`{}` also runs a gateway; with the same bot tokens the two would take messages from each other",
            other.display()
        ));
    }
    context.home.create()?;
    let service = match manager {
        ServiceManager::Systemd => systemd::install(&context.home, &plan)?,
        ServiceManager::Launchd => launchd::install(&context.home, &plan)?,
    };
    let output = context.output;
    output.note(format!("Installed `{}`.", service.path.display()));
    let is_other_running = instance::find_running(&context.home)?.is_some() && !service.is_active();
    if is_other_running {
        output.note("A gateway of this home is running already. `hermes gateway stop`, then `hermes gateway start`, lets the service take over.");
    } else if !args.no_start {
        start_service(context, manager, &service)?;
    }
    if manager == ServiceManager::Systemd && !systemd::stays_after_logout() {
        output.note(
            "It runs while you are logged in. `loginctl enable-linger` lets it run without you.",
        );
    }
    let foreign: Vec<String> = others.iter().map(|it| it.display().to_string()).collect();
    output.json(json!({"installed": service.path, "name": service.name, "foreign": foreign}));
    Ok(())
}

pub(super) fn uninstall(context: &Context) -> Result<(), Failure> {
    let Some(service) = find_installed(&context.home) else {
        return Err(Failure::new(
            FailureKind::NotFound,
            "no service of this home is installed",
        ));
    };
    if !service.is_ours {
        return Err(Failure::failed(format!(
            "`{}` was not written by this program, so it stays",
            service.path.display()
        ))
        .hint("remove it with the program that wrote it"));
    }
    if cfg!(target_os = "macos") {
        launchd::uninstall(&service)?;
    } else {
        systemd::uninstall(&service)?;
    }
    context
        .output
        .note(format!("Removed `{}`.", service.path.display()));
    context.output.json(json!({"removed": service.path}));
    Ok(())
}

pub(super) fn start(context: &Context) -> Result<(), Failure> {
    if let Some(process) = instance::find_running(&context.home)? {
        context.output.note(format!(
            "The gateway is running already (process {}).",
            process.pid
        ));
        context
            .output
            .json(json!({"started": false, "pid": process.pid}));
        return Ok(());
    }
    let started = match usable_service(context) {
        Some((manager, service)) => {
            start_service(context, manager, &service)?;
            wait_until_running(&context.home)?
        }
        None => background::start(context)?,
    };
    context
        .output
        .json(json!({"started": true, "pid": started}));
    Ok(())
}

pub(super) fn restart(context: &Context) -> Result<(), Failure> {
    if let Some((manager, service)) = usable_service(context)
        && (service.is_active() || instance::find_running(&context.home)?.is_none())
    {
        match manager {
            ServiceManager::Systemd => systemd::restart(&service)?,
            ServiceManager::Launchd => launchd::restart(&service)?,
        }
        context
            .output
            .note(format!("The service `{}` was restarted.", service.name));
        let pid = wait_until_running(&context.home)?;
        context.output.json(json!({"restarted": true, "pid": pid}));
        return Ok(());
    }
    if let Some(process) = instance::find_running(&context.home)? {
        let drain = context.written_settings()?.agent.restart_drain_timeout;
        stop_gateway(&context.home, &process, drain)?;
    }
    let pid = background::start(context)?;
    context.output.json(json!({"restarted": true, "pid": pid}));
    Ok(())
}

pub(super) fn stop(context: &Context) -> Result<(), Failure> {
    let Some(process) = instance::find_running(&context.home)? else {
        return Err(Failure::new(
            FailureKind::NotFound,
            "no gateway of this home is running",
        ));
    };
    match usable_service(context).filter(|(_, service)| service.is_active()) {
        // Otherwise the service manager would take its end for a failure.
        Some((ServiceManager::Systemd, service)) => systemd::stop(&service)?,
        Some((ServiceManager::Launchd, service)) => launchd::stop(&service)?,
        None => {
            let drain = context.written_settings()?.agent.restart_drain_timeout;
            stop_gateway(&context.home, &process, drain)?;
        }
    }
    context.output.note(format!(
        "The gateway (process {}) has stopped.",
        process.pid
    ));
    context.output.json(json!({"stopped": process.pid}));
    Ok(())
}

/// The service that we wrote, if it can be driven.
fn usable_service(context: &Context) -> Option<(ServiceManager, InstalledService)> {
    let service = find_installed(&context.home).filter(|service| service.is_ours)?;
    Some((ServiceManager::detect()?, service))
}

fn start_service(
    context: &Context,
    manager: ServiceManager,
    service: &InstalledService,
) -> Result<(), Failure> {
    match manager {
        ServiceManager::Systemd => systemd::start(service)?,
        ServiceManager::Launchd => launchd::start(service)?,
    }
    context
        .output
        .note(format!("The service `{}` is running.", service.name));
    Ok(())
}

fn no_service_manager(plan: &ServicePlan) -> Failure {
    let command = format!(
        "HERMES_HOME={} {} gateway run",
        plan.home.display(),
        plan.program.display()
    );
    Failure::new(
        FailureKind::Unavailable,
        "there is no user service manager here (`systemctl --user` does not answer)",
    )
    .hint(
        "`hermes gateway start` runs it in the background; nothing starts it again after a failure",
    )
    .hint(format!(
        "in a container, make this its command: `{command}`"
    ))
}

/// Runs a command of the service manager.
fn run_quietly(command: &mut Command) -> Result<String, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Failure::failed(format!("`{name}` is not installed")),
        _ => Failure::failed(format!("`{name}` cannot be run: {error}")),
    })?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let arguments: Vec<_> = command.get_args().map(|it| it.to_string_lossy()).collect();
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    Err(Failure::failed(format!(
        "`{name} {}` failed: {said}",
        arguments.join(" ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_home_has_a_service_name_of_its_own() {
        let suffix = |path: &str| home_suffix(&Home::at(path));
        let user = std::env::home_dir().unwrap();
        assert_eq!(suffix(user.join(".hermes").to_str().unwrap()), "");
        assert_eq!(suffix("/srv/hermes/profiles/work"), "-work");
        assert_eq!(suffix("/srv/bots/a b"), "-srv-bots-a-b");
    }
}
