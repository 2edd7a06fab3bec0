//! The launch agent of a home, on macOS.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use hermes_config::Home;

use super::{InstalledService, MARKER, ServicePlan, home_suffix, run_quietly};
use crate::failure::Failure;

/// Of our agents. Python Hermes uses `ai.hermes.gateway`.
const LABEL: &str = "ai.hermes.gateway";

fn label(home: &Home) -> String {
    format!("{LABEL}{}", home_suffix(home))
}

fn agents_dir() -> Option<PathBuf> {
    Some(std::env::home_dir()?.join("Library").join("LaunchAgents"))
}

fn domain() -> String {
    format!("gui/{}", rustix::process::getuid().as_raw())
}

fn launchctl(arguments: &[&str]) -> Result<String, Failure> {
    run_quietly(Command::new("launchctl").args(arguments))
}

pub(super) fn find_installed(home: &Home) -> Option<InstalledService> {
    let name = label(home);
    let path = agents_dir()?.join(format!("{name}.plist"));
    let text = fs::read_to_string(&path).ok()?;
    let printed = launchctl(&["print", &format!("{}/{name}", domain())]).ok();
    let state = printed.map(|printed| {
        let line = printed
            .lines()
            .find_map(|line| line.trim().strip_prefix("state = "));
        line.unwrap_or("loaded").to_owned()
    });
    Some(InstalledService {
        is_ours: text.contains(MARKER),
        state,
        name,
        path,
    })
}

/// Other agents that run a gateway.
pub(super) fn find_foreign(home: &Home) -> Vec<PathBuf> {
    let own = format!("{}.plist", label(home));
    let Some(entries) = agents_dir().and_then(|directory| fs::read_dir(directory).ok()) else {
        return Vec::new();
    };
    let is_foreign = |path: &Path| {
        let is_own = path.file_name().is_some_and(|name| name == own.as_str());
        let text = fs::read_to_string(path).unwrap_or_default();
        let runs_gateway = text.contains("hermes") && text.contains("<string>gateway</string>");
        !is_own && !text.contains(MARKER) && runs_gateway
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = paths.filter(|path| is_foreign(path)).collect();
    found.sort();
    found
}

pub(super) fn install(home: &Home, plan: &ServicePlan) -> Result<InstalledService, Failure> {
    let directory =
        agents_dir().ok_or_else(|| Failure::failed("the user has no home directory"))?;
    fs::create_dir_all(&directory)?;
    let name = label(home);
    let path = directory.join(format!("{name}.plist"));
    // An agent that is loaded keeps its old text.
    let _ = launchctl(&["bootout", &format!("{}/{name}", domain())]);
    fs::write(&path, plist_text(&name, plan))?;
    find_installed(home).ok_or_else(|| Failure::failed("the agent was removed meanwhile"))
}

pub(super) fn uninstall(service: &InstalledService) -> Result<(), Failure> {
    let _ = launchctl(&["bootout", &format!("{}/{}", domain(), service.name)]);
    fs::remove_file(&service.path)?;
    Ok(())
}

pub(super) fn start(service: &InstalledService) -> Result<(), Failure> {
    let path = service.path.to_string_lossy();
    launchctl(&["bootstrap", &domain(), &path]).map(drop)
}

pub(super) fn restart(service: &InstalledService) -> Result<(), Failure> {
    if service.state.is_none() {
        return start(service);
    }
    let target = format!("{}/{}", domain(), service.name);
    launchctl(&["kickstart", "-k", &target]).map(drop)
}

pub(super) fn stop(service: &InstalledService) -> Result<(), Failure> {
    launchctl(&["bootout", &format!("{}/{}", domain(), service.name)]).map(drop)
}

fn plist_text(name: &str, plan: &ServicePlan) -> String {
    let home = escape(&plan.home.to_string_lossy());
    let mut kept = String::new();
    for (name, value) in &plan.environment {
        let value = escape(value);
        let _ = write!(kept, "\n    <key>{name}</key><string>{value}</string>");
    }
    format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- {MARKER}; the next install replaces changes. -->
<plist version="1.0">
<dict>
  <key>Label</key><string>{}</string>
  <key>ProgramArguments</key>
  <array>
    <string>{}</string>
    <string>gateway</string>
    <string>run</string>
  </array>
  <key>EnvironmentVariables</key>
  <dict>
    <key>HERMES_HOME</key><string>{home}</string>{kept}
  </dict>
  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key><false/>
  </dict>
  <key>ThrottleInterval</key><integer>10</integer>
  <key>ExitTimeOut</key><integer>{}</integer>
  <key>StandardOutPath</key><string>{log}</string>
  <key>StandardErrorPath</key><string>{log}</string>
</dict>
</plist>
"#,
        escape(name),
        escape(&plan.program.to_string_lossy()),
        plan.stop_seconds,
        log = escape(&plan.log.to_string_lossy()),
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_starts_again_after_a_failure_only() {
        let text = plist_text(
            "ai.hermes.gateway",
            &ServicePlan {
                program: "/Applications/a & b/hermes".into(),
                home: "/Users/ann/.hermes".into(),
                environment: Vec::new(),
                log: "/Users/ann/.hermes/logs/gateway.log".into(),
                stop_seconds: 30,
            },
        );
        assert!(text.contains("<string>/Applications/a &amp; b/hermes</string>"));
        assert!(text.contains("<key>SuccessfulExit</key><false/>"));
        assert!(text.contains("<key>HERMES_HOME</key><string>/Users/ann/.hermes</string>"));
        assert!(text.contains(MARKER) && !text.contains("--replace"));
    }
}
