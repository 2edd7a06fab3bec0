//! The Hub's private routes, as an agent asks them: over a Unix socket, with the runtime key of its home.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use hermes_config::{Secret, sync::RwLock};
use reqwest::{Client, Method, RequestBuilder, Url};

const SOCKET_VARIABLE: &str = "HERMES_HUB_SOCKET";

/// Request timeout: a search may take five seconds in the Hub, and queue before that.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The runtime key of a home, which may become another one while its agent runs. Clones are the same key.
#[derive(Debug, Clone)]
pub(crate) struct RuntimeKey(Arc<RwLock<Secret<String>>>);

impl RuntimeKey {
    pub(crate) fn new(key: Secret<String>) -> Self {
        Self(Arc::new(RwLock::new(key)))
    }

    /// Presents another one from now on.
    pub(crate) fn replace(&self, key: Secret<String>) {
        *self.0.write() = key;
    }

    fn get(&self) -> Secret<String> {
        let key = self.0.read();
        key.clone()
    }
}

/// The way to the private routes of a Hub. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct PrivateRoutes {
    client: Client,
    key: RuntimeKey,
    /// The descriptor that the client's path to the socket goes by.
    _directory: Option<Arc<std::fs::File>>,
}

impl PrivateRoutes {
    /// Those of the Hub that this process belongs to, if it does and the Hub has any.
    pub(crate) fn from_environment(key: &Secret<String>) -> Option<Self> {
        let socket = std::env::var_os(SOCKET_VARIABLE).map(PathBuf::from)?;
        match Self::connect(&socket, RuntimeKey::new(key.clone())) {
            Ok(routes) => Some(routes),
            Err(error) => {
                tracing::warn!(%error, "cannot connect to the Hub");
                None
            }
        }
    }

    pub(crate) fn connect(socket: &Path, key: RuntimeKey) -> io::Result<Self> {
        let (path, directory) = short_socket_path(socket)?;
        let client = Client::builder()
            .unix_socket(path)
            .no_proxy()
            // There is no TLS on a socket, and roots take milliseconds to read.
            .tls_certs_only([])
            .timeout(REQUEST_TIMEOUT)
            .build()
            .map_err(io::Error::other)?;
        Ok(Self {
            client,
            key,
            _directory: directory.map(Arc::new),
        })
    }

    /// Whether the Hub has given this home its key.
    pub(crate) fn has_key(&self) -> bool {
        !self.key.get().expose().is_empty()
    }

    pub(crate) fn request(&self, method: Method, url: Url) -> RequestBuilder {
        let request = self.client.request(method, url);
        request.bearer_auth(self.key.get().expose())
    }
}

/// Paths of sockets must be short: a long one is named by way of its directory's descriptor.
fn short_socket_path(socket: &Path) -> io::Result<(PathBuf, Option<std::fs::File>)> {
    const LONGEST: usize = 100;
    if socket.as_os_str().len() <= LONGEST {
        return Ok((socket.to_owned(), None));
    }
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, Mode, OFlags, openat};
        use std::os::fd::AsRawFd;
        let directory = socket.parent().unwrap_or(Path::new("/"));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = std::fs::File::from(openat(CWD, directory, flags, Mode::empty())?);
        let path = Path::new("/proc/self/fd")
            .join(opened.as_raw_fd().to_string())
            .join(socket.file_name().unwrap_or_default());
        Ok((path, Some(opened)))
    }
    #[cfg(not(target_os = "linux"))]
    Err(io::Error::other("the path of the Hub's socket is too long"))
}
