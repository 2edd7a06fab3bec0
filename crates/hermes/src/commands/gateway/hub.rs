//! What a Hub hands to a gateway it starts: tenant id, runtime key, listening socket and first directives.
//!
//! `HERMES_TENANT_ID` says that there is one. It then gives the numbers of two descriptors: of a listening Unix socket in
//! `HERMES_API_FD`, and in `HERMES_KEYS_FD` of a file with the runtime key and the variables of the tenant, as JSON:
//! these must be in no environment, where commands could find them. Its directives are JSON on stdin, which it closes.
//! Without any there, no optional feature is on until they come over the socket.

use std::{
    fs::File,
    io::{self, IsTerminal as _, Read as _},
    os::{
        fd::{BorrowedFd, FromRawFd as _, OwnedFd, RawFd},
        unix::net::UnixListener,
    },
    path::PathBuf,
};

use hermes_agent::{
    policy::Directives,
    tools::terminal::{CommandBounds, CommandSandbox},
};
use hermes_config::{Secret, Variables};
use hermes_gateway::gateway::ControlMode;
use rustix::io::{FdFlags, fcntl_setfd};
use serde_json::json;

use crate::{
    embedded_hub::runtime::{
        COMMAND_SANDBOX, READ_PATHS,
        handover::AgentKeys,
        launcher::{KEYS_VARIABLE as KEYS, SOCKET_VARIABLE as LISTENER},
    },
    failure::Failure,
};

const TENANT_VARIABLE: &str = "HERMES_TENANT_ID";
const WORKSPACE_VARIABLE: &str = "HERMES_WORKSPACE";

/// What was passed down.
pub(super) struct HubHandover {
    pub(super) direction: ControlMode,
    pub(super) directives: Directives,
    /// What clients present, if that is not the home's own key.
    pub(super) key: Option<Secret<String>>,
    /// What an operator gave, as if this process had been started with it.
    pub(super) variables: Variables,
    pub(super) listener: Option<UnixListener>,
    /// What commands are confined to.
    pub(super) bounds: CommandBounds,
}

impl HubHandover {
    pub(super) fn read() -> Result<Self, Failure> {
        let listener = take_listener()?;
        let Some(tenant) = read_variable(TENANT_VARIABLE) else {
            return Ok(Self {
                direction: ControlMode::Own,
                directives: Directives::default(),
                key: None,
                variables: Variables::default(),
                listener,
                bounds: CommandBounds::default(),
            });
        };
        let (Some(keys), true) = (read_keys()?, listener.is_some()) else {
            return Err(Failure::usage(format!(
                "`{TENANT_VARIABLE}` is set, so `{KEYS}` and `{LISTENER}` must be, too"
            ))
            .hint("a Hub sets all three; without one, unset it"));
        };
        Ok(Self {
            direction: ControlMode::Hub { tenant },
            directives: read_directives()?,
            key: Some(Secret::new(keys.runtime_key)),
            variables: Variables::from_pairs(keys.env),
            listener,
            bounds: read_command_bounds(),
        })
    }
}

fn read_variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// What the Hub leaves the commands of this agent.
fn read_command_bounds() -> CommandBounds {
    let readable = std::env::var_os(READ_PATHS).unwrap_or_default();
    match read_variable(COMMAND_SANDBOX) {
        None => CommandBounds::default(),
        Some(_) => CommandBounds {
            min_level: CommandSandbox::Workspace,
            workspace: std::env::var_os(WORKSPACE_VARIABLE).map(PathBuf::from),
            readable: std::env::split_paths(&readable)
                .filter(|path| path.is_absolute())
                .collect(),
        },
    }
}

/// The directives on stdin. Nothing there leaves every optional feature off: what a Hub may forbid must not begin.
fn read_directives() -> Result<Directives, Failure> {
    let mut text = String::new();
    let mut stdin = std::io::stdin();
    if !stdin.is_terminal() {
        stdin.read_to_string(&mut text)?;
    }
    if text.trim().is_empty() {
        return Ok(Directives {
            policy: json!({"features": {"enabled": []}}),
            ..Directives::default()
        });
    }
    serde_json::from_str(&text)
        .map_err(|error| Failure::usage(format!("the directives on stdin are not usable: {error}")))
}

/// The socket behind a number. Processes that the agent starts do not get it.
fn take_listener() -> Result<Option<UnixListener>, Failure> {
    let Some((number, descriptor)) = descriptor_from_variable(LISTENER, "listening Unix socket")?
    else {
        return Ok(None);
    };
    let listener = UnixListener::from(descriptor);
    listener
        .set_nonblocking(true)
        .and_then(|()| listener.local_addr())
        .map_err(|error| {
            let reason = format!("is not a listening Unix socket: {error}");
            Failure::usage(format!("`{LISTENER}={number}` {reason}"))
        })?;
    Ok(Some(listener))
}

/// The keys behind a number. They are read once, and the descriptor is closed.
fn read_keys() -> Result<Option<AgentKeys>, Failure> {
    let Some((number, descriptor)) = descriptor_from_variable(KEYS, "file with keys")? else {
        return Ok(None);
    };
    match AgentKeys::from_file(File::from(descriptor)) {
        Ok(keys) if !keys.runtime_key.is_empty() => Ok(Some(keys)),
        // The error might quote what it could not read.
        _ => Err(Failure::usage(format!(
            "`{KEYS}={number}` is not a file with keys: JSON with `runtime_key` and `env` is expected"
        ))),
    }
}

/// The open file whose number a variable holds.
fn descriptor_from_variable(name: &str, what: &str) -> Result<Option<(String, OwnedFd)>, Failure> {
    let Some(number) = read_variable(name) else {
        return Ok(None);
    };
    let unusable =
        |reason: String| Failure::usage(format!("`{name}={number}` is not a {what}: {reason}"));
    let descriptor: RawFd = match number.parse() {
        Ok(descriptor) if descriptor > 2 => descriptor,
        _ => return Err(unusable("not the number of a descriptor".into())),
    };
    let owned = take_descriptor(descriptor).map_err(|error| unusable(error.to_string()))?;
    Ok(Some((number, owned)))
}

/// Takes over a descriptor, if there is one of that number.
#[expect(
    unsafe_code,
    reason = "whoever starts us hands the descriptor over; nothing else of this process knows it"
)]
fn take_descriptor(descriptor: RawFd) -> io::Result<OwnedFd> {
    // Looked at first: only an open one may be owned.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    fcntl_setfd(borrowed, FdFlags::CLOEXEC)?;
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
