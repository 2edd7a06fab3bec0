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
/// What is in a Hub's data directory: its keys, tokens and database, and the homes and files of its tenants.
const HUB_ENTRIES: [&str; 18] = [
    "admin.token",
    "backups",
    "hub.db",
    "hub.db-shm",
    "hub.db-wal",
    "hub.lock",
    "hub.yaml",
    "internal",
    "logs",
    "reading",
    "run",
    "secret.key",
    "shares",
    "sync",
    "tenants",
    "trash",
    "users.json",
    "webhooks",
];
/// A directory with this file is a Hub's.
const HUB_LOCK: &str = "hub.lock";
/// The directory of a Hub, if nobody has named another one.
pub(crate) const USUAL_HUB_NAME: &str = "hermes-hub";
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
    /// Where Hubs of this user keep their data.
    pub hub_directories: Vec<PathBuf>,
    /// The program of Hermes.
    pub program: Option<PathBuf>,
}

impl ProtectedPaths {
    /// Those of a home, and of the user of this process.
    pub fn for_home(home: &Path) -> Self {
        Self {
            hermes_home: Some(home.to_path_buf()),
            user_home: std::env::home_dir(),
            hub_directories: hub_directories(),
            program: own_program(),
        }
    }

    /// Whether a path is in the data directory of a Hub, other than the home itself, which a Hub may have there.
    fn is_in_hub(&self, path: &Path) -> bool {
        let is_known = |hub: &PathBuf| path.starts_with(hub);
        let is_entry = |path: &Path| {
            let name = path.file_name().and_then(OsStr::to_str);
            name.is_some_and(|name| HUB_ENTRIES.contains(&name))
                && path.with_file_name(HUB_LOCK).is_file()
        };
        let is_in_any = self.hub_directories.iter().any(is_known) || path.ancestors().any(is_entry);
        let is_own = |home: &PathBuf| {
            let real = home.canonicalize();
            path.starts_with(home) || real.is_ok_and(|real| path.starts_with(real))
        };
        is_in_any && !self.hermes_home.as_ref().is_some_and(is_own)
    }

    /// Whether a path is a socket of a running Hermes, or where these are.
    pub(crate) fn is_process_socket(&self, path: &Path) -> bool {
        let is_short = path.components().nth(2).is_some_and(|second| {
            let name = second.as_os_str().to_string_lossy();
            let user = name.strip_prefix("hermes-").unwrap_or_default();
            path.starts_with("/tmp") && !user.is_empty() && user.bytes().all(|b| b.is_ascii_digit())
        });
        is_short
            || self
                .strip_home_prefix(path)
                .is_some_and(|rest| rest.starts_with("run"))
    }

    /// Whether a path is the program of Hermes, by whatever name.
    pub(crate) fn is_program(&self, path: &Path) -> bool {
        self.program.as_deref() == Some(path) && path.is_absolute()
    }

    /// Whether a path belongs to a store of credentials of the home, of the home it is a profile of, or of another
    /// profile; or to a Hub.
    pub fn is_secret_store(&self, path: &Path) -> bool {
        let is_of_home = self.strip_home_prefix(path).is_some_and(|rest| {
            let Some(first) = first_component(&rest) else {
                return false;
            };
            let first = first.to_ascii_lowercase();
            SECRET_STORES.contains(&&*first)
                || first.starts_with(".env.")
                || rest == Path::new("bridge/token")
        });
        is_of_home || self.is_in_hub(path)
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
        let pattern = pattern_of(&name.to_string_lossy());
        matches_pattern(&pattern, wanted)
    };
    let mut components = path.components().skip(1).map(Component::as_os_str);
    let is_proc = path.is_absolute() && components.next().is_some_and(|name| may_be(name, "proc"));
    let last = path.file_name();
    // Files of one process only: `ls /proc/*` shows nothing.
    let is_deep = path.components().count() > 3 || last.is_some_and(|last| last == "kcore");
    is_proc && is_deep && last.is_some_and(|last| SHOW.iter().any(|name| may_be(last, name)))
}

/// The file of this program, also after another one has taken its place.
fn own_program() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let replaced = program
        .to_str()
        .and_then(|path| path.strip_suffix(" (deleted)"));
    Some(replaced.map_or_else(|| program.clone(), PathBuf::from))
}

/// Where a Hub of this user keeps its data: what the environment says, and the usual place.
pub(crate) fn hub_directories() -> Vec<PathBuf> {
    let variable = |name: &str| {
        let value = std::env::var_os(name).filter(|value| !value.is_empty());
        value.map(PathBuf::from)
    };
    let data = variable("XDG_DATA_HOME")
        .or_else(|| Some(std::env::home_dir()?.join(".local/share")))
        .map(|data| data.join(USUAL_HUB_NAME));
    let named = variable("HERMES_HUB_DATA_DIR");
    let found = named.into_iter().chain(data);
    let found = found.filter_map(|path| std::path::absolute(path).ok());
    let both = found.flat_map(|path| [path.canonicalize().ok(), Some(path)]);
    both.flatten().collect()
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

/// A name as a pattern of `*` and `?`: `[abc]` is one character.
pub(crate) fn pattern_of(name: &str) -> String {
    let mut pattern = String::new();
    let mut rest = name;
    while let Some((before, class)) = rest.split_once('[') {
        pattern.push_str(before);
        pattern.push('?');
        // A bracket at the beginning of a class belongs to it.
        let start = class.len() - class.trim_start_matches(['!', '^']).len();
        let end = class[start..]
            .char_indices()
            .skip(1)
            .find(|(_, c)| *c == ']');
        rest = match end {
            Some((at, _)) => &class[start + at + 1..],
            None => class,
        };
    }
    pattern.push_str(rest);
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    fn landmarks() -> ProtectedPaths {
        ProtectedPaths {
            hermes_home: Some("/home/a/.hermes/profiles/work".into()),
            user_home: Some("/home/a".into()),
            hub_directories: vec!["/home/a/.local/share/hermes-hub".into()],
            program: None,
        }
    }

    #[test]
    fn everything_of_a_hub_is_secret_but_for_the_home_that_it_has_there() {
        let directory = tempfile::tempdir().unwrap();
        let hub = directory.path().canonicalize().unwrap().join("some-hub");
        std::fs::create_dir_all(hub.join("tenants/a/home")).unwrap();
        std::fs::write(hub.join("hub.lock"), "").unwrap();
        let mut paths = landmarks();
        for path in [
            "admin.token",
            "secret.key",
            "hub.db-wal",
            "tenants/b/home/x",
        ] {
            assert!(paths.is_secret_store(&hub.join(path)), "{path}");
            let usual = Path::new("/home/a/.local/share/hermes-hub").join(path);
            assert!(paths.is_secret_store(&usual), "{path}");
        }
        // A directory of this name that is no Hub's.
        let other = directory.path().join("tenants/b/logs/secret.key");
        assert!(!paths.is_secret_store(&other));
        paths.hermes_home = Some(hub.join("tenants/a/home"));
        assert!(!paths.is_secret_store(&hub.join("tenants/a/home/workspace/x")));
        assert!(paths.is_secret_store(&hub.join("tenants/a/home/.env")));
        assert!(paths.is_secret_store(&hub.join("tenants/b/home/workspace/x")));
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
    fn a_class_of_characters_is_one_character() {
        for (name, pattern) in [
            ("[e]nv", "?nv"),
            (".[a-f]*", ".?*"),
            ("[!x]y[]]z", "?y?z"),
            ("a[b", "a?b"),
            ("plain", "plain"),
        ] {
            assert_eq!(pattern_of(name), pattern, "{name}");
        }
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
