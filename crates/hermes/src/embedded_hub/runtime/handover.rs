//! What the Hub hands to a tenant's process, and how that process takes it: the socket it listens on and its keys, as open
//! files, and its first directives on stdin.
//!
//! `HERMES_TENANT_ID` says that there is a Hub. `HERMES_API_FD` is the descriptor of a listening Unix socket,
//! `HERMES_KEYS_FD` that of a file with the runtime key and the variables of the tenant, as JSON. Without directives
//! nothing is permitted until they come over the socket.
//!
//! Keys do not go through the environment, which commands of the tenant could read from the process table, nor through
//! a file that has a name. Both files travel over a pair of sockets that is the stdin of the launcher.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, IoSlice, IoSliceMut, IsTerminal as _, Read as _, Seek as _, Write as _},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd},
        unix::net::{UnixListener, UnixStream},
    },
    path::PathBuf,
};

use hermes_agent::{
    policy::AgentPolicy,
    tools::terminal::{CommandBounds, CommandSandbox},
};
use hermes_config::{Secret, Variables};
use hermes_gateway::gateway::{ControlMode, HubHome};
use hermes_protocol::Directives;
use rustix::{
    io::{FdFlags, fcntl_setfd},
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
    },
};
use serde::{Deserialize, Serialize};

use crate::{
    embedded_hub::runtime::{
        COMMAND_SANDBOX, READ_PATHS,
        launcher::{KEYS_VARIABLE as KEYS, SOCKET_VARIABLE as LISTENER},
    },
    failure::Failure,
};

/// The socket and the file with the keys.
const FILE_COUNT: usize = 2;

/// The longest text of keys that is read; variables of a tenant are few and short.
const MAX_KEYS_BYTES: u64 = 16 * 1024 * 1024;

/// The keys of a tenant's process.
#[derive(Default, Serialize, Deserialize)]
pub struct AgentKeys {
    /// What the Hub presents, and what is presented to the Hub.
    pub runtime_key: String,
    /// The variables that the operator gave the tenant.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

impl AgentKeys {
    /// Puts them into a file without a name.
    pub fn into_file(self) -> io::Result<File> {
        let mut file = unnamed_file()?;
        file.write_all(&serde_json::to_vec(&self)?)?;
        file.rewind()?;
        Ok(file)
    }

    /// Reads them from such a file.
    pub fn from_file(file: File) -> io::Result<Self> {
        let mut text = Vec::new();
        file.take(MAX_KEYS_BYTES).read_to_end(&mut text)?;
        Ok(serde_json::from_slice(&text)?)
    }
}

#[cfg(target_os = "linux")]
fn unnamed_file() -> io::Result<File> {
    use rustix::fs::{MemfdFlags, memfd_create};
    Ok(File::from(memfd_create("keys", MemfdFlags::CLOEXEC)?))
}

#[cfg(not(target_os = "linux"))]
fn unnamed_file() -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let path = std::env::temp_dir().join(format!(
        "hermes-keys-{}",
        hermes_config::random::random_digits(16)
    ));
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

/// Puts both files into a socket, which the launcher gets as its stdin.
pub fn send_files(listener: BorrowedFd<'_>, keys: &File) -> io::Result<OwnedFd> {
    let (near, far) = UnixStream::pair()?;
    let files = [listener, keys.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILE_COUNT))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let bytes = [IoSlice::new(b"f")];
    sendmsg(&near, &bytes, &mut control, SendFlags::empty())?;
    Ok(far.into())
}

/// Takes both files out of the socket: the one to listen on, and the keys. They are inherited by what this process
/// becomes.
pub(super) fn receive_files(socket: BorrowedFd<'_>) -> io::Result<(OwnedFd, OwnedFd)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILE_COUNT))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    rustix::io::retry_on_intr(|| {
        let mut bytes = [IoSliceMut::new(&mut byte)];
        recvmsg(socket, &mut bytes, &mut control, RecvFlags::empty())
    })?;
    let mut files = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            files.extend(rights);
        }
    }
    let files: [OwnedFd; FILE_COUNT] = files
        .try_into()
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    let [listener, keys] = files;
    rustix::net::sockopt::socket_type(&listener)?;
    Ok((listener, keys))
}

const TENANT_VARIABLE: &str = "HERMES_TENANT_ID";
const WORKSPACE_VARIABLE: &str = "HERMES_WORKSPACE";

/// What was passed down.
pub(crate) struct HubHandover {
    pub(crate) direction: ControlMode,
    /// What the operator permits.
    pub(crate) policy: AgentPolicy,
    /// What clients present, if that is not the home's own key.
    pub(crate) key: Option<Secret<String>>,
    /// What an operator gave, as if this process had been started with it.
    pub(crate) variables: Variables,
    pub(crate) listener: Option<UnixListener>,
    /// What commands are confined to.
    pub(crate) bounds: CommandBounds,
}

impl HubHandover {
    pub(crate) fn read() -> Result<Self, Failure> {
        let listener = take_listener()?;
        let Some(tenant) = read_variable(TENANT_VARIABLE) else {
            return Ok(Self {
                direction: ControlMode::Own,
                policy: AgentPolicy::default(),
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
            direction: ControlMode::Hub {
                tenant,
                home: HubHome::Hosted,
            },
            policy: read_policy()?,
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

/// The policy of the directives on stdin. If there are none, nothing is permitted: what a Hub may forbid must not begin.
fn read_policy() -> Result<AgentPolicy, Failure> {
    let mut text = Vec::new();
    let mut stdin = std::io::stdin();
    if !stdin.is_terminal() {
        stdin.read_to_end(&mut text)?;
    }
    if text.trim_ascii().is_empty() {
        return Ok(AgentPolicy::closed());
    }
    match Directives::from_json(&text) {
        Ok(directives) => Ok(directives.into()),
        Err(error) => Err(Failure::usage(format!(
            "the directives on stdin cannot be used: {error}"
        ))),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_files_arrive_and_the_keys_can_be_read() {
        let (listener, _other) = UnixStream::pair().unwrap();
        let keys = AgentKeys {
            runtime_key: "hub_rt_x".into(),
            env: BTreeMap::from([("API_KEY".into(), "sk-1".into())]),
        };
        let socket = send_files(listener.as_fd(), &keys.into_file().unwrap()).unwrap();
        let (_listener, keys) = receive_files(socket.as_fd()).unwrap();
        let keys = AgentKeys::from_file(keys.into()).unwrap();
        assert_eq!(keys.runtime_key, "hub_rt_x");
        assert_eq!(keys.env["API_KEY"], "sk-1");
    }
}
