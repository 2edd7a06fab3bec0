//! What the Hub hands to a tenant's process: the socket it listens on and its keys, as open files.
//!
//! Keys do not go through the environment, which commands of the tenant could read from the process table, nor through
//! a file that has a name. Both files travel over a pair of sockets that is the stdin of the launcher.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, IoSlice, IoSliceMut, Read as _, Seek as _, Write as _},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

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
