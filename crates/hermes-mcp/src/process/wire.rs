//! What host, guard and keeper say to each other.
//!
//! - Host to guard: one byte that carries the keeper's end of a fresh socket pair.
//! - Host to keeper: the length of the request with the server's stdin, stdout and stderr, then the request as JSON.
//!   Any later byte asks the keeper to stop the server.
//! - Keeper to host: [`Report`]s, one line of JSON each.

use std::{
    ffi::OsString,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{BorrowedFd, OwnedFd},
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

use super::Exit;

/// stdin, stdout and stderr of a server.
pub(super) const STDIO_COUNT: usize = 3;

/// The length of a request, as it travels.
pub(super) type RequestLength = [u8; 4];

/// Asks a keeper to end its server.
pub(super) const STOP: [u8; 1] = [b's'];

/// Asks the guard for a keeper.
pub(super) const NEW_KEEPER: [u8; 1] = [b'k'];

/// What a keeper needs to know to start its server.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) cwd: Option<OsString>,
}

/// What a keeper tells its host.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    /// The server runs.
    Started { pid: u32, start_time: u64 },
    /// The server could not be started.
    Failed { errno: Option<i32>, message: String },
    /// The server's own process has ended.
    Exited(Exit),
    /// Nothing of the server's tree is left; the keeper's last word.
    Gone,
}

impl Report {
    /// A start that failed for `error`.
    pub(super) fn failed(error: &io::Error) -> Self {
        Self::Failed {
            errno: error.raw_os_error(),
            message: error.to_string(),
        }
    }

    /// The report as a line.
    pub(super) fn line(&self) -> Vec<u8> {
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
    fn a_request_keeps_bytes_that_are_not_unicode() {
        use std::os::unix::ffi::OsStringExt;
        let odd = OsString::from_vec(vec![b'a', 0xff, b'=']);
        let request = Request {
            program: "/bin/true".into(),
            args: vec![odd.clone()],
            environment: vec![("K".into(), odd)],
            cwd: None,
        };
        let text = serde_json::to_string(&request).unwrap();
        let back: Request = serde_json::from_str(&text).unwrap();
        assert_eq!(back.args, request.args);
        assert_eq!(back.environment, request.environment);
    }
}
