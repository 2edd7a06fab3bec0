//! Resolves the paths of tool calls and checks whether a tool may access them.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fs::{self, File},
    io::{self, Read},
    path::{Component, Path, PathBuf},
};

use hermes_protocol::escape_pattern;

use crate::{
    approval::{
        ApprovalRequest, ProtectedPaths,
        protected::{is_process_memory, is_system_config},
    },
    tools::{ToolError, tool::ToolContext},
};

const MAX_LINKS: usize = 40;
/// Enough of a file to detect its type.
const HEAD_BYTES: u64 = 8192;

/// What a tool wants to do with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessPurpose {
    Read,
    Write,
}

/// Whether a tool may touch a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathPermission {
    Allow,
    Ask {
        rule: &'static str,
        reason: &'static str,
    },
    Deny {
        reason: &'static str,
    },
}

/// The path rules of a call.
#[derive(Debug, Clone)]
pub(crate) struct PathRules {
    cwd: PathBuf,
    protected_paths: ProtectedPaths,
}

impl PathRules {
    pub(crate) fn from_context(context: &ToolContext) -> Self {
        Self::new(context.cwd.clone(), context.protected_paths())
    }

    /// Links in the protected paths are resolved, as in every other path.
    pub(crate) fn new(cwd: PathBuf, protected: ProtectedPaths) -> Self {
        let real = |path: Option<PathBuf>| path.map(|path| real_path(&path).unwrap_or(path));
        let protected = ProtectedPaths {
            hermes_home: real(protected.hermes_home),
            user_home: real(protected.user_home),
            ..protected
        };
        Self {
            cwd,
            protected_paths: protected,
        }
    }

    /// Resolves `~`, the working directory and all links of a path.
    pub(crate) fn locate(&self, path: &str) -> io::Result<PathBuf> {
        let expanded = match (path.strip_prefix('~'), &self.protected_paths.user_home) {
            (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
                home.join(rest.trim_start_matches('/'))
            }
            _ => PathBuf::from(path),
        };
        real_path(&self.cwd.join(expanded))
    }

    /// The permission for a resolved path.
    pub(crate) fn permission(&self, path: &Path, purpose: AccessPurpose) -> PathPermission {
        let protected = &self.protected_paths;
        if protected.is_secret_store(path) {
            return PathPermission::Deny {
                reason: "it holds credentials of Hermes",
            };
        }
        if is_process_memory(path) {
            return PathPermission::Deny {
                reason: "it shows the variables or the memory of a process",
            };
        }
        if purpose == AccessPurpose::Write && protected.is_database(path) {
            return PathPermission::Deny {
                reason: "Hermes stores its sessions in it",
            };
        }
        if protected.is_hermes_config(path) {
            return PathPermission::Ask {
                rule: "Hermes config access",
                reason: "the settings of Hermes",
            };
        }
        if protected.is_user_credential(path) && !holds_no_private_key(path) {
            return PathPermission::Ask {
                rule: "credential file access",
                reason: "a private key or stored credentials",
            };
        }
        if purpose == AccessPurpose::Write && is_system_config(path) {
            return PathPermission::Ask {
                rule: "overwrite system config",
                reason: "changes the system's configuration",
            };
        }
        if purpose == AccessPurpose::Write && protected.is_startup_file(path) {
            let reason = "changes what runs or is trusted at your next login";
            return PathPermission::Ask {
                rule: "overwrite startup file",
                reason,
            };
        }
        PathPermission::Allow
    }

    /// Opens a file for reading. Anything but a regular file is refused, and so is a hard link to a secret.
    pub(crate) fn open(&self, path: &Path) -> io::Result<File> {
        let file = open_nonblocking(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::new(
                io::ErrorKind::IsADirectory,
                "it is a directory",
            ));
        }
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        if self.is_link_to_secret(&metadata) {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "it holds credentials of Hermes",
            ));
        }
        Ok(file)
    }

    #[cfg(unix)]
    fn is_link_to_secret(&self, metadata: &fs::Metadata) -> bool {
        use std::os::unix::fs::MetadataExt;
        if metadata.nlink() < 2 {
            return false;
        }
        let is_same =
            |other: fs::Metadata| (other.dev(), other.ino()) == (metadata.dev(), metadata.ino());
        let protected = &self.protected_paths;
        let holders = protected
            .hermes_home
            .iter()
            .chain(&protected.hub_directories);
        let stores = holders.flat_map(fs::read_dir).flatten().flatten();
        stores
            .map(|entry| entry.path())
            .filter(|path| self.protected_paths.is_secret_store(path))
            .any(|store| {
                let inside = fs::read_dir(&store)
                    .into_iter()
                    .flatten()
                    .flatten()
                    .map(|entry| entry.path());
                std::iter::once(store)
                    .chain(inside)
                    .any(|path| fs::metadata(path).is_ok_and(is_same))
            })
    }

    #[cfg(not(unix))]
    fn is_link_to_secret(&self, _metadata: &fs::Metadata) -> bool {
        false
    }
}

/// Resolves a path and requests approval if needed.
pub(in crate::tools) async fn authorize_path(
    tool: &str,
    path: &str,
    purpose: AccessPurpose,
    map: &PathRules,
    context: &ToolContext,
) -> Result<PathBuf, ToolError> {
    let real = map
        .locate(path)
        .map_err(|error| ToolError::new(format!("{path}: {error}")))?;
    match map.permission(&real, purpose) {
        PathPermission::Allow => {}
        PathPermission::Deny { reason } => {
            return Err(ToolError::new(format!(
                "{path} cannot be accessed: {reason}"
            )));
        }
        PathPermission::Ask { rule, reason } => {
            let verb = if purpose == AccessPurpose::Read {
                "read"
            } else {
                "write"
            };
            let subject = format!("{verb} {}", real.display());
            let request = ApprovalRequest {
                tool: tool.to_owned(),
                pattern: Some(escape_pattern(&subject)),
                subject,
                reason: reason.to_owned(),
                rules: vec![rule.to_owned()],
                can_allow_always: false,
                ..ApprovalRequest::default()
            };
            context
                .approvals
                .check_action(request, &context.cancel)
                .await?;
        }
    }
    if purpose == AccessPurpose::Write {
        context.approvals.record_written_file(&real);
    }
    Ok(real)
}

/// The path with every link resolved; parts that do not exist yet stay as written.
pub(crate) fn real_path(path: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(path)?;
    let mut pending: VecDeque<OsString> = path_parts(&absolute).collect();
    let mut real = PathBuf::new();
    let mut links = 0;
    while let Some(part) = pending.pop_front() {
        let mut components = Path::new(&part).components();
        match components.next() {
            Some(Component::ParentDir) => {
                real.pop();
            }
            Some(Component::Normal(name)) => {
                let next = real.join(name);
                let Ok(target) = fs::read_link(&next) else {
                    real = next;
                    continue;
                };
                links += 1;
                if links > MAX_LINKS {
                    return Err(io::Error::other("too many symbolic links"));
                }
                for part in path_parts(&target).collect::<Vec<_>>().into_iter().rev() {
                    pending.push_front(part);
                }
            }
            Some(Component::CurDir) | None => {}
            // An absolute path starts over.
            Some(_) => real.push(&part),
        }
    }
    Ok(real)
}

fn path_parts(path: &Path) -> impl Iterator<Item = OsString> {
    path.components()
        .map(|component| component.as_os_str().to_owned())
}

/// A pipe without a writer must not block the tool.
fn open_nonblocking(path: &Path) -> io::Result<File> {
    let mut options = fs::OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
        options.custom_flags(flags.bits().cast_signed());
    }
    options.open(path)
}

/// Whether a file named like a key contains none: certificates end in `.pem` too.
fn holds_no_private_key(path: &Path) -> bool {
    let is_pem = path.extension().is_some_and(|ending| {
        ending.eq_ignore_ascii_case("pem") || ending.eq_ignore_ascii_case("key")
    });
    if !is_pem
        || path
            .components()
            .any(|component| component.as_os_str() == ".ssh")
    {
        return false;
    }
    let mut head = Vec::new();
    match open_nonblocking(path) {
        Ok(file) => {
            file.take(HEAD_BYTES).read_to_end(&mut head).is_ok() && !contains(&head, b"PRIVATE KEY")
        }
        // A new file has no content to protect.
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
