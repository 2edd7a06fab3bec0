//! Protected files: secrets of the home, keys of the user, and files that decide which programs run.

use std::{
    ffi::OsStr,
    path::{Component, Path, PathBuf},
};

use hermes_protocol::matches_pattern;

/// Files of a home that hold credentials. No tool may reach them.
pub(crate) const SECRET_STORES: [&str; 10] = [
    ".env",
    "mcp-tokens",
    "secrets.json",
    "secrets.key",
    "auth",
    "auth.json",
    "auth.lock",
    "pairing",
    ".anthropic_oauth.json",
    "webhook_subscriptions.json",
];
/// Databases of a home: written by Hermes alone.
const DATABASES: [&str; 2] = ["state.db", "runtime.db"];
/// Files of the user's directory that hold credentials.
const USER_CREDENTIALS: [&str; 12] = [
    ".aws/credentials",
    ".azure",
    ".config/gcloud",
    ".config/gh/hosts.yml",
    ".docker/config.json",
    ".git-credentials",
    ".gnupg",
    ".kube/config",
    ".netrc",
    ".npmrc",
    ".pgpass",
    ".pypirc",
];
/// Files of `~/.ssh` without anything secret.
const PUBLIC_SSH_FILES: [&str; 4] = [
    "config",
    "known_hosts",
    "known_hosts.old",
    "authorized_keys",
];
/// Files that a shell, a desktop or ssh runs or trusts automatically.
const STARTUP_FILES: [&str; 14] = [
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".config/autostart",
    ".config/environment.d",
    ".config/fish",
    ".config/systemd",
    ".profile",
    ".ssh",
    ".zlogin",
    ".zprofile",
    ".zshenv",
    ".zshrc",
];
/// Where the system keeps its configuration.
const SYSTEM_CONFIG: [&str; 9] = [
    "/etc",
    "/boot",
    "/lib/systemd",
    "/usr/lib/systemd",
    "/var/spool/cron",
    "/Library/LaunchAgents",
    "/Library/LaunchDaemons",
    "/proc/sys",
    "/sys",
];

/// The directories below which paths are protected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProtectedPaths {
    pub hermes_home: Option<PathBuf>,
    pub user_home: Option<PathBuf>,
}

impl ProtectedPaths {
    /// Whether a path belongs to a store of credentials of the home, of the home it is a profile of, or of another
    /// profile.
    pub fn is_secret_store(&self, path: &Path) -> bool {
        self.strip_home_prefix(path).is_some_and(|rest| {
            let Some(first) = first_component(&rest) else {
                return false;
            };
            let first = first.to_ascii_lowercase();
            SECRET_STORES.contains(&&*first)
                || first.starts_with(".env.")
                || rest == Path::new("bridge/token")
        })
    }

    /// Whether a path is one of the home's databases.
    pub fn is_database(&self, path: &Path) -> bool {
        self.strip_home_prefix(path)
            .and_then(|rest| first_component(&rest))
            .is_some_and(|first| DATABASES.iter().any(|name| first.starts_with(name)))
    }

    /// Whether a path is the home's `config.yaml`, which sets what needs approval, or lists accepted tools.
    pub fn is_hermes_config(&self, path: &Path) -> bool {
        self.strip_home_prefix(path).is_some_and(|rest| {
            rest.components().count() == 1
                && first_component(&rest).is_some_and(|name| {
                    let files = ["config.yaml", "mcp-pins.json"];
                    files.iter().any(|file| name.eq_ignore_ascii_case(file))
                })
        })
    }

    /// Whether a path is a private key or another credential of the user, judged by its name.
    pub fn is_user_credential(&self, path: &Path) -> bool {
        let lower = |text: Option<&OsStr>| {
            text.unwrap_or_default()
                .to_string_lossy()
                .to_ascii_lowercase()
        };
        let (name, ending) = (lower(path.file_name()), lower(path.extension()));
        if ending == "pub" {
            return false;
        }
        let is_key = ["pem", "key", "p12", "pfx", "ppk"].contains(&&*ending)
            || ["id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"]
                .iter()
                .any(|key| name.starts_with(key));
        let Some(rest) = self
            .user_home
            .as_ref()
            .and_then(|home| path.strip_prefix(home).ok())
        else {
            return is_key;
        };
        let is_ssh = rest.starts_with(".ssh")
            && rest != Path::new(".ssh")
            && !PUBLIC_SSH_FILES.contains(&&*name);
        is_key
            || is_ssh
            || USER_CREDENTIALS
                .iter()
                .any(|credential| rest.starts_with(credential))
    }

    /// Whether writing to a path changes what runs automatically in the user's sessions.
    pub fn is_startup_file(&self, path: &Path) -> bool {
        let rest = self
            .user_home
            .as_ref()
            .and_then(|home| path.strip_prefix(home).ok());
        rest.is_some_and(|rest| STARTUP_FILES.iter().any(|file| rest.starts_with(file)))
    }

    /// The path below the home, its root, or one of the root's profiles.
    fn strip_home_prefix(&self, path: &Path) -> Option<PathBuf> {
        let home = self.hermes_home.as_deref()?;
        let root = match home.parent() {
            Some(parent) if parent.ends_with("profiles") => parent.parent().unwrap_or(home),
            _ => home,
        };
        let rest = path.strip_prefix(root).ok()?;
        let mut components = rest.components();
        match (components.next(), components.next()) {
            (Some(Component::Normal(first)), Some(_)) if first == "profiles" => {
                Some(components.as_path().to_path_buf())
            }
            _ => Some(rest.to_path_buf()),
        }
    }
}

/// Whether a file of this name is a start file of a shell, wherever it is.
pub(crate) fn is_startup_name(name: &str) -> bool {
    name.starts_with('.') && name != ".ssh" && STARTUP_FILES.contains(&name)
}

/// Whether a path is below a directory of system configuration.
pub(crate) fn is_system_config(path: &Path) -> bool {
    // On macOS `/etc` is a link.
    let without_private = path
        .strip_prefix("/private")
        .map(|rest| Path::new("/").join(rest));
    let path = without_private.as_deref().unwrap_or(path);
    SYSTEM_CONFIG.iter().any(|place| path.starts_with(place))
}

/// Whether a path shows the variables or the memory of a process, or could match one by its `*`.
pub(crate) fn is_process_memory(path: &Path) -> bool {
    const SHOW: [&str; 4] = ["environ", "mem", "kcore", "auxv"];
    let may_be = |name: &OsStr, wanted: &str| {
        let pattern = name.to_string_lossy().replace(['[', ']'], "?");
        matches_pattern(&pattern, wanted)
    };
    let mut components = path.components().skip(1).map(Component::as_os_str);
    let is_proc = path.is_absolute() && components.next().is_some_and(|name| may_be(name, "proc"));
    let last = path.file_name();
    // Files of one process only: `ls /proc/*` shows nothing.
    let is_deep = path.components().count() > 3 || last.is_some_and(|last| last == "kcore");
    is_proc && is_deep && last.is_some_and(|last| SHOW.iter().any(|name| may_be(last, name)))
}

fn first_component(path: &Path) -> Option<String> {
    path.components()
        .next()
        .map(|first| first.as_os_str().to_string_lossy().into_owned())
}

/// A path without `.`, `..` and double separators, by its text alone.
pub(crate) fn normalize(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                if !result.pop() || result.as_os_str().is_empty() {
                    result.push(if path.is_absolute() { "/" } else { "" });
                }
            }
            other => result.push(other),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn landmarks() -> ProtectedPaths {
        ProtectedPaths {
            hermes_home: Some("/home/a/.hermes/profiles/work".into()),
            user_home: Some("/home/a".into()),
        }
    }

    #[test]
    fn secrets_of_the_home_its_root_and_every_profile_are_known() {
        for path in [
            ".env",
            ".env.backup",
            "mcp-tokens/github.json",
            "secrets.json",
            "secrets.key",
            "auth.json",
            "bridge/token",
            "profiles/work/.env",
            "profiles/other/mcp-tokens",
        ] {
            assert!(
                landmarks().is_secret_store(&Path::new("/home/a/.hermes").join(path)),
                "{path}"
            );
        }
        for path in [
            "/home/a/.env",
            "/home/a/.hermes/skills/.env",
            "/home/a/.hermes/environment",
            "/home/a/.hermes",
        ] {
            assert!(!landmarks().is_secret_store(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn keys_are_known_and_public_ones_are_free() {
        for path in [
            "/home/a/.ssh/id_ed25519",
            "/home/a/.ssh/work",
            "/srv/tls/server.key",
            "/home/a/.aws/credentials",
        ] {
            assert!(landmarks().is_user_credential(Path::new(path)), "{path}");
        }
        for path in [
            "/home/a/.ssh/id_ed25519.pub",
            "/home/a/.ssh/known_hosts",
            "/home/a/keys.md",
            "/home/a/.ssh",
        ] {
            assert!(!landmarks().is_user_credential(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn configuration_is_known() {
        assert!(landmarks().is_hermes_config(Path::new("/home/a/.hermes/profiles/x/config.yaml")));
        assert!(!landmarks().is_hermes_config(Path::new("/home/a/.hermes/skills/config.yaml")));
        assert!(landmarks().is_startup_file(Path::new("/home/a/.ssh/authorized_keys")));
        assert!(landmarks().is_database(Path::new("/home/a/.hermes/state.db-wal")));
        assert!(is_system_config(Path::new("/private/etc/hosts")));
        assert!(!is_system_config(Path::new("/etcetera")));
    }

    #[test]
    fn paths_are_normalized_by_their_text() {
        for (path, expected) in [
            ("/a/./b/../c", "/a/c"),
            ("/../..", "/"),
            ("//a//b/", "/a/b"),
            ("a/..", ""),
        ] {
            assert_eq!(normalize(Path::new(path)), Path::new(expected), "{path}");
        }
    }
}
