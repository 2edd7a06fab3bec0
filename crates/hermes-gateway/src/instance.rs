//! The one gateway of a home: its lock, its record, and what it says about its state.
//!
//! The lock is the kernel's and ends with the process, whatever ends that. `gateway.pid` says whose it is,
//! `gateway_state.json` how it is; both may be left over from a process that is gone.

use std::{
    collections::BTreeMap,
    fs, io,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use hermes_config::{Home, replace_file};
use hermes_mcp::process;
use hermes_store::{epoch_seconds, utc_iso};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const KIND: &str = "hermes-gateway";

/// Which process a gateway is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PidRecord {
    /// Its id.
    pub pid: u32,
    /// What kind of process.
    #[serde(default)]
    pub kind: String,
    /// How it was called.
    #[serde(default)]
    pub argv: Vec<String>,
    /// When it began, in the system's own count.
    #[serde(default)]
    pub start_time: Option<u64>,
}

impl PidRecord {
    fn of_this_process() -> Self {
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

    /// Whether that process is still there.
    pub fn is_running(&self) -> bool {
        let start = self.start_time.and_then(|start| i64::try_from(start).ok());
        !process::is_gone(i64::from(self.pid), start)
    }
}

/// How a gateway is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GatewayState {
    /// It has begun.
    #[default]
    Starting,
    /// It works.
    Running,
    /// It works, but something of it does not.
    Degraded,
    /// It waits for runs to end.
    Draining,
    /// It could not start.
    StartupFailed,
    /// It has ended.
    Stopped,
}

impl GatewayState {
    /// The word.
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

/// How one platform of a gateway is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PlatformState {
    /// `connecting`, `connected`, `retrying` or `fatal`.
    pub state: String,
    /// What kind of trouble.
    pub error_code: Option<String>,
    /// The trouble in words.
    pub error_message: Option<String>,
    /// When that was found, in UTC.
    pub updated_at: String,
}

/// What `gateway_state.json` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateFile {
    /// The process.
    #[serde(flatten)]
    pub process: PidRecord,
    /// How it is.
    #[serde(default)]
    pub gateway_state: GatewayState,
    /// Why it ended.
    #[serde(default)]
    pub exit_reason: Option<String>,
    /// Whether it is to come back.
    #[serde(default)]
    pub restart_requested: bool,
    /// How many runs are under way.
    #[serde(default)]
    pub active_agents: usize,
    /// Its platforms.
    #[serde(default)]
    pub platforms: BTreeMap<String, PlatformState>,
    /// In UTC.
    #[serde(default)]
    pub updated_at: String,
}

/// Why this process is not the home's gateway.
#[derive(Debug, thiserror::Error)]
pub enum NotTaken {
    /// Another process is.
    #[error("a gateway of this home is running already{}", of(holder.as_ref()))]
    Held {
        /// Which, if that is known.
        holder: Option<PidRecord>,
    },
    /// The files can not be used.
    #[error("`{}`: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

fn of(holder: Option<&PidRecord>) -> String {
    holder.map_or_else(String::new, |holder| format!(" (process {})", holder.pid))
}

/// The right to be the home's gateway, for as long as this lives.
#[derive(Debug)]
pub struct Instance {
    home: Home,
    state: Mutex<StateFile>,
    _lock: fs::File,
}

impl Instance {
    /// Becomes the home's gateway, if no other process is.
    pub fn take(home: &Home) -> Result<Self, NotTaken> {
        let path = lock_path(home);
        let failed = |source| NotTaken::Io {
            path: path.clone(),
            source,
        };
        home.create().map_err(failed)?;
        let lock = match try_lock(home).map_err(failed)? {
            Some(lock) => lock,
            None => {
                return Err(NotTaken::Held {
                    holder: holder(home),
                });
            }
        };
        let process = PidRecord::of_this_process();
        write(&pid_path(home), &json!(process))?;
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
            _lock: lock,
        };
        instance.change(|_| {})?;
        Ok(instance)
    }

    /// Changes what the gateway says about itself.
    pub fn change(&self, change: impl FnOnce(&mut StateFile)) -> Result<(), NotTaken> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        state.updated_at = utc_iso(epoch_seconds());
        write(&state_path(&self.home), &json!(*state))
    }

    /// Says how one platform is. What can not be written is logged: the platform matters more.
    pub fn set_platform(&self, name: &str, state: &str, trouble: Option<(&str, &str)>) {
        let platform = PlatformState {
            state: state.to_owned(),
            error_code: trouble.map(|(code, _)| code.to_owned()),
            error_message: trouble.map(|(_, message)| message.to_owned()),
            updated_at: utc_iso(epoch_seconds()),
        };
        let changed = self.change(|state| {
            state.platforms.insert(name.to_owned(), platform);
        });
        if let Err(error) = changed {
            tracing::warn!(%error, "the state of the gateway can not be written");
        }
    }

    /// What the gateway says about itself.
    pub fn state(&self) -> StateFile {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Says that it ends, and why. The lock goes with the process.
    pub fn end(&self, state: GatewayState, reason: Option<String>) {
        let changed = self.change(|file| {
            file.gateway_state = state;
            file.exit_reason = reason;
            file.active_agents = 0;
        });
        if let Err(error) = changed {
            tracing::warn!(%error, "the end of the gateway can not be written");
        }
        let _ = fs::remove_file(pid_path(&self.home));
    }
}

/// The process that is the home's gateway. None if there is none.
pub fn running(home: &Home) -> io::Result<Option<PidRecord>> {
    if !lock_path(home).exists() || try_lock(home)?.is_some() {
        return Ok(None);
    }
    Ok(Some(holder(home).unwrap_or(PidRecord {
        pid: 0,
        kind: KIND.into(),
        argv: Vec::new(),
        start_time: None,
    })))
}

/// What the last gateway of a home said about itself.
pub fn last_state(home: &Home) -> Option<StateFile> {
    let text = fs::read_to_string(state_path(home)).ok()?;
    serde_json::from_str(&text).ok()
}

/// The record, if its process is there. Other programs write only a number.
fn holder(home: &Home) -> Option<PidRecord> {
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
    let mut options = fs::OpenOptions::new();
    options.append(true).create(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(lock_path(home))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}

fn write(path: &std::path::Path, value: &Value) -> Result<(), NotTaken> {
    replace_file(path, value.to_string().as_bytes()).map_err(|source| NotTaken::Io {
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
        assert_eq!(running(&home).unwrap(), None);
        let instance = Instance::take(&home).unwrap();
        let second = Instance::take(&home).unwrap_err();
        assert!(second.to_string().contains(&std::process::id().to_string()));
        assert_eq!(running(&home).unwrap().unwrap().pid, std::process::id());
        instance.end(GatewayState::Stopped, Some("tested".into()));
        drop(instance);
        assert_eq!(running(&home).unwrap(), None);
        let state = last_state(&home).unwrap();
        assert_eq!(state.gateway_state, GatewayState::Stopped);
        assert_eq!(state.exit_reason.as_deref(), Some("tested"));
        assert!(Instance::take(&home).is_ok());
    }

    #[test]
    fn a_bare_number_is_a_record_too() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path());
        fs::write(pid_path(&home), std::process::id().to_string()).unwrap();
        assert_eq!(holder(&home).unwrap().pid, std::process::id());
        fs::write(pid_path(&home), "0").unwrap();
        assert_eq!(holder(&home), None);
    }

    #[test]
    fn the_state_is_one_line_with_the_process_in_it() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path());
        let instance = Instance::take(&home).unwrap();
        instance.set_platform("api_server", "fatal", Some(("port_in_use", "busy")));
        let text = fs::read_to_string(state_path(&home)).unwrap();
        assert_eq!(text.lines().count(), 1);
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["pid"], std::process::id());
        assert_eq!(value["kind"], KIND);
        assert_eq!(
            value["platforms"]["api_server"]["error_code"],
            "port_in_use"
        );
    }
}
