//! The Unix sockets of agents: one directory that only the Hub can enter.

use std::{
    fs, io,
    os::unix::{fs::PermissionsExt, net::UnixListener},
    path::{Path, PathBuf},
};

use hermes_config::private_file::{FileOwner, create_private_dirs};
use hermes_hub::TenantId;

/// The directory of the sockets.
#[derive(Debug)]
pub(super) struct AgentSockets {
    directory: PathBuf,
    /// Keeps the directory open, so that sockets can be named by way of its descriptor: the path of a socket must be
    /// shorter than 108 bytes, however deep the data lies.
    #[cfg(target_os = "linux")]
    handle: fs::File,
}

impl AgentSockets {
    /// Makes the directory if it is missing.
    pub(super) fn in_directory(directory: PathBuf) -> io::Result<Self> {
        create_private_dirs(&directory, FileOwner::Writer)?;
        Ok(Self {
            #[cfg(target_os = "linux")]
            handle: fs::File::open(&directory)?,
            directory,
        })
    }

    /// Listens for a tenant's agent, and returns where.
    pub(super) fn listen(&self, tenant: &TenantId) -> io::Result<(UnixListener, PathBuf)> {
        self.bind(&socket_name(tenant))
    }

    fn bind(&self, name: &str) -> io::Result<(UnixListener, PathBuf)> {
        let _ = fs::remove_file(self.directory.join(name));
        let path = self.short_path(name);
        let listener = UnixListener::bind(&path)?;
        listener.set_nonblocking(true)?;
        Ok((listener, path))
    }

    /// Removes what is left of a tenant's socket.
    pub(super) fn remove(&self, tenant: &TenantId) {
        let _ = fs::remove_file(self.directory.join(socket_name(tenant)));
    }

    /// A file beside the socket.
    pub(super) fn lock_file(&self, tenant: &TenantId) -> PathBuf {
        self.directory.join(format!("{tenant}.lock"))
    }

    fn short_path(&self, name: &str) -> PathBuf {
        #[cfg(target_os = "linux")]
        let directory = {
            use std::os::fd::AsRawFd;
            Path::new("/proc/self/fd").join(self.handle.as_raw_fd().to_string())
        };
        #[cfg(not(target_os = "linux"))]
        let directory = Path::new(&self.directory);
        directory.join(name)
    }
}

/// Who else may come to the Hub's private routes. The runtime key decides what they get there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketCallers {
    /// Processes of the Hub's own user.
    SameUser,
    /// Those of other users too: each tenant has one.
    OtherUsers,
}

/// Listens for what tenants ask of the Hub, and returns where. The socket lies apart from those of agents, which no tenant
/// may reach.
pub fn listen_private_routes(
    data_dir: &Path,
    callers: SocketCallers,
) -> io::Result<(UnixListener, PathBuf)> {
    let directory = data_dir.join("internal");
    let sockets = AgentSockets::in_directory(directory.clone())?;
    let (listener, _) = sockets.bind(PRIVATE_SOCKET)?;
    let (way, socket) = match callers {
        SocketCallers::SameUser => (0o700, 0o600),
        SocketCallers::OtherUsers => (0o711, 0o666),
    };
    let path = directory.join(PRIVATE_SOCKET);
    fs::set_permissions(&directory, fs::Permissions::from_mode(way))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(socket))?;
    Ok((listener, path))
}

const PRIVATE_SOCKET: &str = "hub.sock";

fn socket_name(tenant: &TenantId) -> String {
    format!("{tenant}.sock")
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_deep_directory_and_a_long_name_are_not_an_obstacle() {
        let directory = tempfile::tempdir().unwrap();
        let deep = directory.path().join("d".repeat(100)).join("e".repeat(100));
        let sockets = AgentSockets::in_directory(deep.clone()).unwrap();
        let tenant = TenantId::parse(&"t".repeat(64)).unwrap();
        let (_listener, path) = sockets.listen(&tenant).unwrap();
        UnixStream::connect(path).unwrap();
        let mode = fs::metadata(&deep).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn a_socket_that_was_left_behind_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let sockets = AgentSockets::in_directory(directory.path().join("run")).unwrap();
        let tenant = TenantId::parse("a").unwrap();
        drop(sockets.listen(&tenant).unwrap());
        let (_listener, path) = sockets.listen(&tenant).unwrap();
        UnixStream::connect(path).unwrap();
    }
}
