//! The protocol between host and guard.
//!
//! - For a new server the host sends one byte, which carries one end of a fresh socket pair. The rest is said on that:
//! - Host to guard: the [`SpawnMessage`] together with the server's stdin, stdout and stderr, and later [`HostOrder`]s.
//! - Guard to host: [`GuardReport`]s, one line of JSON each.

use std::{
    ffi::{OsStr, OsString},
    io::{self, IoSlice, IoSliceMut, Read},
    mem::MaybeUninit,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::PathBuf,
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

use super::{ServerExit, deadline::MachineTime};
use crate::process::sandbox::{NetworkAccess, SandboxPlan, SandboxSupport, UnixSocketAccess};

/// stdin, stdout and stderr of a server.
pub(super) const STDIO_COUNT: usize = 3;

/// What the host orders about a server that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostOrder {
    /// To end it, step by step.
    Stop,
    /// To kill it, with all that it has started.
    Kill,
    /// To kill it then, whatever has become of the host, unless another such order comes before.
    KillAt(MachineTime),
}

const STOP_BYTE: u8 = b's';
const KILL_BYTE: u8 = b'k';
const KILL_AT_BYTE: u8 = b'd';

impl HostOrder {
    pub(super) fn encode(self) -> Vec<u8> {
        match self {
            Self::Stop => vec![STOP_BYTE],
            Self::Kill => vec![KILL_BYTE],
            Self::KillAt(time) => [&[KILL_AT_BYTE][..], &time.to_bytes()].concat(),
        }
    }

    /// Waits for the next one. An order that is not known ends the server, which is what orders are for.
    pub(super) fn receive(mut host: impl Read) -> io::Result<Self> {
        let mut kind = [0];
        host.read_exact(&mut kind)?;
        match kind[0] {
            KILL_AT_BYTE => {
                let mut time = [0; 8];
                host.read_exact(&mut time)?;
                Ok(Self::KillAt(MachineTime::from_bytes(time)))
            }
            KILL_BYTE => Ok(Self::Kill),
            _ => Ok(Self::Stop),
        }
    }
}

pub(super) const NEW_SERVER_BYTE: [u8; 1] = [b'n'];

/// What the guard needs to know to start a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SpawnMessage {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) cwd: Option<OsString>,
    pub(super) sandbox: Option<SandboxPlan>,
}

impl SpawnMessage {
    /// As it travels: its length, and its parts, each after its own length. Not JSON,
    /// which would turn every byte into a number.
    pub(super) fn encode(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; LENGTH_BYTES];
        let mut put = |part: &OsStr| {
            bytes.extend(encode_length(part.len())?);
            bytes.extend(part.as_bytes());
            io::Result::Ok(())
        };
        put(&self.program)?;
        put(self.cwd.as_deref().unwrap_or_default())?;
        put(OsStr::from_bytes(&encode_support(self.sandbox.as_ref())))?;
        if let Some(plan) = &self.sandbox {
            for paths in [&plan.read, &plan.write] {
                for path in paths {
                    put(path.as_os_str())?;
                }
                put(OsStr::new(""))?;
            }
        }
        for (name, value) in &self.environment {
            put(name)?;
            put(value)?;
        }
        // No variable has an empty name.
        put(OsStr::new(""))?;
        for argument in &self.args {
            put(argument)?;
        }
        let length = encode_length(bytes.len())?;
        bytes[..LENGTH_BYTES].copy_from_slice(&length);
        Ok(bytes)
    }

    /// Whether these are all bytes of a request.
    pub(super) fn is_complete(mut bytes: &[u8]) -> bool {
        let received = bytes.len();
        decode_length(&mut bytes).is_some_and(|length| length <= received)
    }

    /// The reverse of [`Self::encode`].
    pub(super) fn decode(bytes: &[u8]) -> io::Result<Self> {
        Self::parse(bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn parse(mut rest: &[u8]) -> Option<Self> {
        let rest = &mut rest;
        decode_length(rest)?;
        let program = decode_part(rest)?;
        let cwd = Some(decode_part(rest)?).filter(|cwd| !cwd.is_empty());
        let support = decode_part(rest)?;
        let sandbox = if support.is_empty() {
            None
        } else {
            Some(decode_plan(support.as_bytes(), rest)?)
        };
        let mut environment = Vec::new();
        while let Some(name) = Some(decode_part(rest)?).filter(|name| !name.is_empty()) {
            environment.push((name, decode_part(rest)?));
        }
        let mut args = Vec::new();
        while !rest.is_empty() {
            args.push(decode_part(rest)?);
        }
        Some(Self {
            program,
            args,
            environment,
            cwd,
            sandbox,
        })
    }
}

/// The support that a sandbox uses, one byte each: the version of Landlock, whether calls are filtered, whether the
/// network is denied, whether Unix sockets are. Nothing where there is no sandbox.
fn encode_support(sandbox: Option<&SandboxPlan>) -> Vec<u8> {
    let Some(plan) = sandbox else {
        return Vec::new();
    };
    let landlock = plan.support.landlock.unwrap_or(0);
    vec![
        u8::try_from(landlock).unwrap_or(u8::MAX),
        plan.support.seccomp.into(),
        (plan.network == NetworkAccess::Denied).into(),
        (plan.unix_sockets == UnixSocketAccess::Denied).into(),
    ]
}

/// The reverse of the encoding above.
fn decode_plan(support_bytes: &[u8], rest: &mut &[u8]) -> Option<SandboxPlan> {
    let &[landlock, seccomp, is_denied, is_local_denied] = support_bytes else {
        return None;
    };
    let support = SandboxSupport {
        landlock: (landlock > 0).then_some(landlock.into()),
        seccomp: seccomp > 0,
    };
    let network = if is_denied > 0 {
        NetworkAccess::Denied
    } else {
        NetworkAccess::Allowed
    };
    Some(SandboxPlan {
        support,
        read: decode_paths(rest)?,
        write: decode_paths(rest)?,
        network,
        unix_sockets: if is_local_denied > 0 {
            UnixSocketAccess::Denied
        } else {
            UnixSocketAccess::Allowed
        },
    })
}

/// Paths up to an empty one.
fn decode_paths(rest: &mut &[u8]) -> Option<Vec<PathBuf>> {
    let mut paths = Vec::new();
    loop {
        match decode_part(rest)? {
            end if end.is_empty() => return Some(paths),
            path => paths.push(path.into()),
        }
    }
}

/// The size of a length, as it travels.
const LENGTH_BYTES: usize = 4;

fn encode_length(length: usize) -> io::Result<[u8; LENGTH_BYTES]> {
    let length = u32::try_from(length).map_err(|_| io::ErrorKind::InvalidInput)?;
    Ok(length.to_ne_bytes())
}

fn decode_length(rest: &mut &[u8]) -> Option<usize> {
    let (length, behind) = rest.split_first_chunk::<LENGTH_BYTES>()?;
    *rest = behind;
    usize::try_from(u32::from_ne_bytes(*length)).ok()
}

fn decode_part(rest: &mut &[u8]) -> Option<OsString> {
    let length = decode_length(rest)?;
    let (part, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(OsString::from_vec(part.to_vec()))
}

/// What the guard says about a server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum GuardReport {
    /// The server runs.
    Started { pid: u32, start_time: u64 },
    /// The server could not be started.
    Failed { errno: Option<i32>, message: String },
    /// The server's own process has ended.
    Exited(ServerExit),
    /// Nothing of the server's tree is left; the last report.
    Gone,
}

impl GuardReport {
    /// A start that failed for `error`.
    pub(super) fn from_error(error: &io::Error) -> Self {
        Self::Failed {
            errno: error.raw_os_error(),
            message: error.to_string(),
        }
    }

    /// The report as a line.
    pub(super) fn to_line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

/// Sends `bytes` together with open files.
pub(super) fn send_with_files(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    files: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    // Without this flag a lost peer would end a host that has not ignored SIGPIPE.
    #[cfg(target_os = "linux")]
    let flags = SendFlags::NOSIGNAL;
    #[cfg(not(target_os = "linux"))]
    let flags = SendFlags::empty();

    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(STDIO_COUNT))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(sendmsg(
        socket,
        &[IoSlice::new(bytes)],
        &mut control,
        flags,
    )?)
}

/// Receives up to `buffer.len()` bytes and the open files that came with them. No bytes: the other side is gone.
pub(super) fn receive_with_files(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> io::Result<(usize, Vec<OwnedFd>)> {
    #[cfg(target_os = "linux")]
    let flags = RecvFlags::CMSG_CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = RecvFlags::empty();

    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(STDIO_COUNT))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut control, flags)
    })?;
    let mut files = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            files.extend(rights);
        }
    }
    #[cfg(not(target_os = "linux"))]
    for file in &files {
        rustix::io::fcntl_setfd(file, rustix::io::FdFlags::CLOEXEC)?;
    }
    Ok((received.bytes, files))
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        os::{fd::AsFd, unix::net::UnixStream},
    };

    use super::*;

    #[test]
    fn an_open_file_travels_with_the_bytes() {
        let (near, far) = UnixStream::pair().unwrap();
        let (mut kept, sent) = UnixStream::pair().unwrap();
        send_with_files(near.as_fd(), b"k", &[sent.as_fd()]).unwrap();
        drop(sent);

        let mut buffer = [0; 8];
        let (count, files) = receive_with_files(far.as_fd(), &mut buffer).unwrap();
        assert_eq!((count, files.len()), (1, 1));
        let mut arrived = UnixStream::from(files.into_iter().next().unwrap());
        arrived.write_all(b"hello").unwrap();
        drop(arrived);
        let mut text = String::new();
        kept.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
    }

    #[test]
    fn a_closed_socket_reads_as_no_bytes() {
        let (near, far) = UnixStream::pair().unwrap();
        drop(near);
        let (count, files) = receive_with_files(far.as_fd(), &mut [0; 8]).unwrap();
        assert_eq!((count, files.len()), (0, 0));
    }

    #[test]
    fn a_request_arrives_as_it_was_sent() {
        let odd = OsString::from_vec(vec![b'a', 0xff, b'=', b'\n']);
        let request = SpawnMessage {
            program: "/bin/true".into(),
            args: vec![odd.clone(), "".into(), "last".into()],
            environment: vec![("K".into(), odd), ("EMPTY".into(), "".into())],
            cwd: Some("/".into()),
            sandbox: Some(SandboxPlan {
                support: SandboxSupport {
                    landlock: Some(6),
                    seccomp: true,
                },
                read: vec!["/data".into(), "/opt".into()],
                write: vec!["/work".into()],
                network: NetworkAccess::Denied,
                unix_sockets: UnixSocketAccess::Denied,
            }),
        };
        let bare = SpawnMessage {
            program: "/bin/true".into(),
            args: Vec::new(),
            environment: Vec::new(),
            cwd: None,
            sandbox: None,
        };
        for request in [request, bare] {
            let bytes = request.encode().unwrap();
            assert_eq!(SpawnMessage::decode(&bytes).unwrap(), request);
            assert!(SpawnMessage::is_complete(&bytes));
            for count in 0..bytes.len() {
                assert!(!SpawnMessage::is_complete(&bytes[..count]));
            }
        }
    }

    #[test]
    fn half_a_request_is_an_error() {
        assert!(SpawnMessage::decode(&[9, 0, 0, 0, 200, 0, 0, 0, b'x']).is_err());
    }
}
