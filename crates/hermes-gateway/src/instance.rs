//! The single gateway instance of a home: lock, PID record, and state file.
//!
//! The kernel releases the lock when the process ends, in whatever way. `gateway.pid` names its holder,
//! `gateway_state.json` its state; both may be left over from an ended process.

mod platform_report;

use std::{
    collections::BTreeMap,
    fs, io,
    path::PathBuf,
    time::{Duration, Instant, SystemTime},
};

use hermes_config::{
    Home,
    private_file::{FileDurability, FileOwner, WriteOptions, open_lock_file, write_file},
    sync::Mutex,
};
use hermes_mcp::process;
use hermes_store::{epoch_seconds, utc_iso};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use self::platform_report::{PlatformReport, PlatformState, PlatformStatus, PlatformWarning};
use crate::platform::PlatformHealth;

const KIND: &str = "hermes-gateway";
/// How often the time something was heard last is written while nothing else changes.
const HEARD_WRITE_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PidRecord {
    pub pid: u32,
    #[serde(default)]
    pub kind: String,
    #[serde(default)]
    pub argv: Vec<String>,
    /// The system's start time of the process.
    #[serde(default)]
    pub start_time: Option<u64>,
}

impl PidRecord {
    fn for_current_process() -> Self {
        let pid = std::process::id();
        Self {
            pid,
            kind: KIND.into(),
            argv: std::env::args_os()
                .map(|argument| argument.to_string_lossy().into_owned())
                .collect(),
            start_time: process::start_time(pid),
        }
    }

    pub fn is_running(&self) -> bool {
        let start = self.start_time.and_then(|start| i64::try_from(start).ok());
        !process::is_gone(i64::from(self.pid), start)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GatewayState {
    #[default]
    Starting,
    Running,
    /// Running, but a platform has failed.
    Degraded,
    Draining,
    StartupFailed,
    Stopped,
}

impl GatewayState {
    /// Whether it has started, and is not ending.
    pub fn is_started(self) -> bool {
        matches!(self, Self::Running | Self::Degraded)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Degraded => "degraded",
            Self::Draining => "draining",
            Self::StartupFailed => "startup_failed",
            Self::Stopped => "stopped",
        }
    }
}

/// What `gateway_state.json` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateFile {
    #[serde(flatten)]
    pub process: PidRecord,
    #[serde(default)]
    pub gateway_state: GatewayState,
    #[serde(default)]
    pub exit_reason: Option<String>,
    #[serde(default)]
    pub restart_requested: bool,
    #[serde(default)]
    pub active_agents: usize,
    #[serde(default)]
    pub platforms: BTreeMap<String, PlatformState>,
    /// In UTC.
    #[serde(default)]
    pub updated_at: String,
}

impl StateFile {
    /// The state of a started gateway, from its platforms.
    fn working_state(&self) -> GatewayState {
        let mut platforms = self.platforms.values();
        let is_problem = |platform: &PlatformState| {
            platform.error_code.is_some()
                || platform.status().is_some_and(PlatformStatus::is_problem)
        };
        if platforms.any(is_problem) {
            GatewayState::Degraded
        } else {
            GatewayState::Running
        }
    }
}

fn log_write_error(written: Result<(), InstanceError>) {
    if let Err(error) = written {
        tracing::warn!(%error, "failed to write the gateway state");
    }
}

/// Why this process cannot be the home's gateway.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    #[error("a gateway of this home is running already{}", format_holder(holder.as_ref()))]
    AlreadyRunning {
        /// Which, if that is known.
        holder: Option<PidRecord>,
    },
    #[error("`{}`: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

fn format_holder(holder: Option<&PidRecord>) -> String {
    holder.map_or_else(String::new, |holder| format!(" (process {})", holder.pid))
}

/// Holds the lock of the home's gateway until dropped.
#[derive(Debug)]
pub struct Instance {
    home: Home,
    state: Mutex<StateFile>,
    /// When the file was written last.
    written_at: Mutex<Instant>,
    _lock: fs::File,
}

impl Instance {
    /// Acquires the lock, if no other process holds it.
    pub fn acquire(home: &Home) -> Result<Self, InstanceError> {
        let path = lock_path(home);
        let failed = |source| InstanceError::Io {
            path: path.clone(),
            source,
        };
        home.create().map_err(failed)?;
        let Some(lock) = try_lock(home).map_err(failed)? else {
            let holder = read_holder(home);
            return Err(InstanceError::AlreadyRunning { holder });
        };
        let process = PidRecord::for_current_process();
        write_json(&pid_path(home), &json!(process))?;
        let instance = Self {
            home: home.clone(),
            state: Mutex::new(StateFile {
                process,
                gateway_state: GatewayState::Starting,
                exit_reason: None,
                restart_requested: false,
                active_agents: 0,
                platforms: BTreeMap::new(),
                updated_at: String::new(),
            }),
            written_at: Mutex::new(Instant::now()),
            _lock: lock,
        };
        instance.update_state(|_| {})?;
        Ok(instance)
    }

    /// Updates the state file.
    pub fn update_state(&self, change: impl FnOnce(&mut StateFile)) -> Result<(), InstanceError> {
        let mut state = self.state.lock();
        change(&mut state);
        self.write_state_file(&mut state)
    }

    fn write_state_file(&self, state: &mut StateFile) -> Result<(), InstanceError> {
        state.updated_at = utc_iso(epoch_seconds());
        *self.written_at.lock() = Instant::now();
        write_json(&state_path(&self.home), &json!(*state))
    }

    /// Records that the gateway has started, with the state of its platforms.
    pub fn mark_started(&self) -> Result<(), InstanceError> {
        self.update_state(|state| state.gateway_state = state.working_state())
    }

    /// Records the state of a platform. Write errors are only logged.
    pub fn set_platform(&self, name: &str, state: &str, failure: Option<(&str, &str)>) {
        let (code, message) = failure.unzip();
        let platform = PlatformState {
            state: state.to_owned(),
            error_code: code.map(str::to_owned),
            error_message: message.map(str::to_owned),
            updated_at: utc_iso(epoch_seconds()),
            ..PlatformState::default()
        };
        self.record_platform(name, platform);
    }

    /// Records how an account is, under its label (`telegram`, `telegram@work`). Cheap: the file is written at once when
    /// the state or the problem is another one, and every ten seconds at most for the time something was heard last.
    pub fn set_platform_health(&self, label: &str, report: &PlatformReport) {
        self.record_platform(label, PlatformState::from_report(report, SystemTime::now()));
    }

    /// Records the health of an account until it is cancelled: changes at once, the rest every ten seconds.
    pub async fn follow_health(&self, label: &str, health: &PlatformHealth) {
        let mut states = health.watch_state();
        loop {
            states.borrow_and_update();
            let report = PlatformReport::from_health(health, SystemTime::now());
            self.set_platform_health(label, &report);
            tokio::select! {
                changed = states.changed() => if changed.is_err() {
                    return;
                },
                () = tokio::time::sleep(HEARD_WRITE_INTERVAL) => {}
            }
        }
    }

    /// The account that has been deaf for the longest time, and for how long.
    pub fn longest_deafness(&self, now: SystemTime) -> Option<(String, Duration)> {
        let state = self.state.lock();
        let deaf = state.platforms.iter().filter_map(|(label, platform)| {
            let since = platform.deaf_since()?;
            Some((label.clone(), now.duration_since(since).unwrap_or_default()))
        });
        deaf.max_by_key(|(_, deafness)| *deafness)
    }

    /// Forgets an account that is not configured any more.
    pub fn remove_platform(&self, label: &str) {
        let changed = self.update_state(|state| {
            state.platforms.remove(label);
            if state.gateway_state.is_started() {
                state.gateway_state = state.working_state();
            }
        });
        log_write_error(changed);
    }

    fn record_platform(&self, name: &str, mut platform: PlatformState) {
        let mut state = self.state.lock();
        let before = state.platforms.get(name);
        let is_same = before.is_some_and(|before| before.says_the_same(&platform));
        if let Some(before) = before {
            if is_same {
                platform.updated_at.clone_from(&before.updated_at);
            }
            if platform.last_ok_at.is_none() {
                platform.last_ok_at.clone_from(&before.last_ok_at);
            }
        }
        state.platforms.insert(name.to_owned(), platform);
        if state.gateway_state.is_started() {
            state.gateway_state = state.working_state();
        }
        if is_same && self.written_at.lock().elapsed() < HEARD_WRITE_INTERVAL {
            return;
        }
        let written = self.write_state_file(&mut state);
        drop(state);
        log_write_error(written);
    }

    pub fn state(&self) -> StateFile {
        self.state.lock().clone()
    }

    /// Records the end and its reason. The lock is released with the process.
    pub fn mark_stopped(&self, state: GatewayState, reason: Option<String>) {
        let changed = self.update_state(|file| {
            file.gateway_state = state;
            file.exit_reason = reason;
            file.active_agents = 0;
        });
        log_write_error(changed);
        let _ = fs::remove_file(pid_path(&self.home));
    }
}

/// The process of the home's running gateway, if there is one.
pub fn find_running(home: &Home) -> io::Result<Option<PidRecord>> {
    if !lock_path(home).exists() || try_lock(home)?.is_some() {
        return Ok(None);
    }
    Ok(Some(read_holder(home).unwrap_or(PidRecord {
        pid: 0,
        kind: KIND.into(),
        argv: Vec::new(),
        start_time: None,
    })))
}

/// The state file of the last gateway.
pub fn read_last_state(home: &Home) -> Option<StateFile> {
    let text = fs::read_to_string(state_path(home)).ok()?;
    serde_json::from_str(&text).ok()
}

/// The PID record, if its process is running. Other programs write only a number.
fn read_holder(home: &Home) -> Option<PidRecord> {
    let text = fs::read_to_string(pid_path(home)).ok()?;
    let record = match serde_json::from_str(&text).ok()? {
        Value::Number(pid) => PidRecord {
            pid: u32::try_from(pid.as_u64()?).ok()?,
            kind: KIND.into(),
            argv: Vec::new(),
            start_time: None,
        },
        value => serde_json::from_value(value).ok()?,
    };
    record.is_running().then_some(record)
}

fn try_lock(home: &Home) -> io::Result<Option<fs::File>> {
    let file = open_lock_file(&lock_path(home), FileOwner::Writer)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}

fn write_json(path: &std::path::Path, value: &Value) -> Result<(), InstanceError> {
    let options = WriteOptions {
        // It says what is, many times a minute: nobody waits for the disk.
        durability: FileDurability::Unsynced,
        ..WriteOptions::default()
    };
    let written = write_file(path, value.to_string().as_bytes(), options);
    written.map_err(|source| InstanceError::Io {
        path: path.to_owned(),
        source,
    })
}

fn lock_path(home: &Home) -> PathBuf {
    home.path().join("gateway.lock")
}

fn pid_path(home: &Home) -> PathBuf {
    home.path().join("gateway.pid")
}

fn state_path(home: &Home) -> PathBuf {
    home.path().join("gateway_state.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_process_is_the_gateway_of_a_home() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path());
        assert_eq!(find_running(&home).unwrap(), None);
        let instance = Instance::acquire(&home).unwrap();
        let second = Instance::acquire(&home).unwrap_err();
        assert!(second.to_string().contains(&std::process::id().to_string()));
        assert_eq!(
            find_running(&home).unwrap().unwrap().pid,
            std::process::id()
        );
        instance.mark_stopped(GatewayState::Stopped, Some("tested".into()));
        drop(instance);
        assert_eq!(find_running(&home).unwrap(), None);
        let state = read_last_state(&home).unwrap();
        assert_eq!(state.gateway_state, GatewayState::Stopped);
        assert_eq!(state.exit_reason.as_deref(), Some("tested"));
        assert!(Instance::acquire(&home).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn the_health_of_an_account_is_written_when_it_changes_and_seldom_otherwise() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path());
        let instance = Instance::acquire(&home).unwrap();
        instance.mark_started().unwrap();
        let health = PlatformHealth::new(Duration::from_secs(50));
        let written = || read_last_state(&home).unwrap();
        let follow = instance.follow_health("telegram@work", &health);
        let check = async {
            let state = || written().platforms.get("telegram@work").cloned();
            let word = || state().map(|state| state.state).unwrap_or_default();
            while word() != "connecting" {
                tokio::task::yield_now().await;
            }
            health.record_ok();
            while word() != "connected" {
                tokio::task::yield_now().await;
            }
            let first = written();
            assert_eq!(first.gateway_state, GatewayState::Running);
            assert!(first.platforms["telegram@work"].last_ok_at.is_some());
            // Heard again: known here at once, written later.
            health.record_ok();
            tokio::time::sleep(HEARD_WRITE_INTERVAL).await;
            assert_eq!(written(), first);
            health.record_lost("network", "no route");
            while word() != "reconnecting" {
                tokio::task::yield_now().await;
            }
            let lost = written();
            assert_eq!(lost.gateway_state, GatewayState::Degraded);
            assert!(lost.platforms["telegram@work"].last_ok_at.is_some());
        };
        tokio::select! {
            () = follow => panic!("it follows until it is cancelled"),
            () = check => {}
        }
        instance.remove_platform("telegram@work");
        assert_eq!(written().gateway_state, GatewayState::Running);
    }

    #[test]
    fn the_longest_deafness_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let instance = Instance::acquire(&Home::at(directory.path())).unwrap();
        assert_eq!(instance.longest_deafness(SystemTime::now()), None);
        instance.set_platform_health("slack", &PlatformReport::new(PlatformStatus::Connected));
        instance.set_platform_health("discord", &PlatformReport::new(PlatformStatus::Deaf));
        let later = SystemTime::now() + Duration::from_mins(6);
        let (label, deafness) = instance.longest_deafness(later).unwrap();
        assert_eq!(label, "discord");
        assert!(deafness > Duration::from_mins(5), "{deafness:?}");
    }

    #[test]
    fn a_bare_number_is_a_record_too() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path());
        fs::write(pid_path(&home), std::process::id().to_string()).unwrap();
        assert_eq!(read_holder(&home).unwrap().pid, std::process::id());
        fs::write(pid_path(&home), "0").unwrap();
        assert_eq!(read_holder(&home), None);
    }

    #[test]
    fn the_state_is_one_line_with_the_process_in_it() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path());
        let instance = Instance::acquire(&home).unwrap();
        instance.mark_started().unwrap();
        assert_eq!(instance.state().gateway_state, GatewayState::Running);
        instance.set_platform("api_server", "fatal", Some(("port_in_use", "busy")));
        let text = fs::read_to_string(state_path(&home)).unwrap();
        assert_eq!(text.lines().count(), 1);
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["pid"], std::process::id());
        assert_eq!(value["kind"], KIND);
        assert_eq!(value["gateway_state"], "degraded");
        assert_eq!(
            value["platforms"]["api_server"]["error_code"],
            "port_in_use"
        );
    }
}
