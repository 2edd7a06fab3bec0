//! Which files may be sent.

use std::path::{Path, PathBuf};

use hermes_agent::approval::ProtectedPaths;
use hermes_config::Home;

/// System directories.
const SYSTEM_DENIED: [&str; 9] = [
    "/etc", "/proc", "/sys", "/dev", "/root", "/boot", "/var/log", "/var/lib", "/var/run",
];

/// Directories of a user that hold credentials.
const USER_DENIED: [&str; 9] = [
    ".ssh",
    ".aws",
    ".gnupg",
    ".kube",
    ".docker",
    ".config",
    ".azure",
    ".gcloud",
    "Library/Keychains",
];

/// Settings and credentials of a home.
const HOME_DENIED: [&str; 15] = [
    "config.yaml",
    ".env",
    "gateway.json",
    "auth.json",
    "auth.lock",
    "auth",
    "credentials",
    ".anthropic_oauth.json",
    "google_token.json",
    "google_oauth_pending.json",
    "webhook_subscriptions.json",
    "mcp-tokens",
    "secrets.json",
    "secrets.key",
    "bridge",
];

/// Decides by the path of a file, links resolved.
#[derive(Debug, Clone)]
pub(crate) struct MediaGate {
    denied: Vec<PathBuf>,
    allowed: Vec<PathBuf>,
    homes: Vec<PathBuf>,
    protected: ProtectedPaths,
    user: Option<PathBuf>,
}

impl MediaGate {
    /// The rules for a home and a user. Files under `allowed` may be sent wherever they are.
    pub(crate) fn new(home: &Home, user: Option<PathBuf>, allowed: &[PathBuf]) -> Self {
        let system = SYSTEM_DENIED.iter().map(PathBuf::from);
        let of_users = user
            .iter()
            .flat_map(|user| USER_DENIED.map(|name| user.join(name)));
        let denied = system.chain(of_users).flat_map(path_and_target).collect();
        let allowed = allowed.iter().cloned().chain([home.cache_dir()]);
        let mut homes = vec![home.path().to_path_buf()];
        // A profile belongs to the home that contains it.
        let parent = home.path().parent();
        if let Some(profiles) = parent.filter(|parent| parent.ends_with("profiles")) {
            homes.extend(profiles.parent().map(Path::to_path_buf));
        }
        Self {
            denied,
            allowed: allowed
                .filter_map(|path| path.canonicalize().ok())
                .collect(),
            homes: homes.into_iter().flat_map(path_and_target).collect(),
            protected: ProtectedPaths::for_home(home.path()),
            user,
        }
    }

    /// The resolved path, or why it may not be sent.
    pub(crate) fn check_path(&self, written: &str) -> Result<PathBuf, String> {
        let path = match (written.strip_prefix("~/"), &self.user) {
            (Some(rest), Some(user)) => user.join(rest),
            _ => PathBuf::from(written),
        };
        let path = path.canonicalize().map_err(|error| error.to_string())?;
        if self
            .allowed
            .iter()
            .any(|directory| path.starts_with(directory))
        {
            return Ok(path);
        }
        if let Some(directory) = self.denied.iter().find(|denied| path.starts_with(denied)) {
            return Err(format!(
                "nothing under `{}` is ever sent",
                directory.display()
            ));
        }
        let is_private = self.homes.iter().any(|home| is_private(home, &path));
        if is_private || self.protected.is_secret_store(&path) {
            return Err("it may hold credentials".into());
        }
        Ok(path)
    }
}

/// A path as written, and with links resolved.
fn path_and_target(path: PathBuf) -> Vec<PathBuf> {
    let real = path.canonicalize().ok().filter(|real| *real != path);
    [path].into_iter().chain(real).collect()
}

/// Whether a file is a private file of a home or of its profiles.
fn is_private(home: &Path, path: &Path) -> bool {
    let Ok(mut inner) = path.strip_prefix(home) else {
        return false;
    };
    if let Ok(profile) = inner.strip_prefix("profiles") {
        let name = profile.iter().next().unwrap_or_default();
        inner = profile.strip_prefix(name).unwrap_or(profile);
    }
    HOME_DENIED.iter().any(|name| inner.starts_with(name))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    struct GateFixture {
        _directory: tempfile::TempDir,
        root: PathBuf,
    }

    impl GateFixture {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let root = directory.path().canonicalize().unwrap();
            Self {
                _directory: directory,
                root,
            }
        }

        fn write(&self, name: &str) -> String {
            let path = self.root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, name).unwrap();
            path.to_str().unwrap().to_owned()
        }

        fn gate(&self, allowed: &[PathBuf]) -> MediaGate {
            let home = Home::at(self.root.join("user/.hermes"));
            MediaGate::new(&home, Some(self.root.join("user")), allowed)
        }
    }

    #[test]
    fn ordinary_files_may_be_sent_and_credentials_may_not() {
        let place = GateFixture::new();
        for name in [
            "user/a.png",
            "user/.hermes/skills/a.md",
            "b.txt",
            "user/.hermes/logs/auth.json",
        ] {
            let path = place.write(name);
            assert_eq!(place.gate(&[]).check_path(&path), Ok(path.into()));
        }
        for name in [
            "user/.ssh/key.txt",
            "user/.config/gh/hosts.yml",
            "user/.hermes/config.yaml",
            "user/.hermes/auth.json",
            "user/.hermes/mcp-tokens/x.json",
            "user/.hermes/profiles/work/config.yaml",
        ] {
            let path = place.write(name);
            assert!(place.gate(&[]).check_path(&path).is_err(), "{name}");
        }
        assert!(place.gate(&[]).check_path("/etc/hostname").is_err());
        assert!(place.gate(&[]).check_path("/nowhere/at/all.png").is_err());
    }

    #[test]
    fn no_directory_of_the_system_and_no_credentials_are_sent() {
        let place = GateFixture::new();
        let gate = place.gate(&[]);
        let system = "/etc /proc /sys /dev /root /boot /var/log /var/lib /var/run";
        for directory in system.split(' ') {
            // A machine may have no such directory.
            if let Ok(real) = Path::new(directory).canonicalize() {
                let refused = gate.check_path(directory).unwrap_err();
                assert!(refused.contains("is ever sent"), "{directory}: {refused}");
                let refused = gate.check_path(real.to_str().unwrap()).unwrap_err();
                assert!(refused.contains("is ever sent"), "{directory}: {refused}");
            }
        }
        let user = ".ssh .aws .gnupg .kube .docker .config .azure .gcloud";
        for directory in user.split(' ') {
            let path = place.write(&format!("user/{directory}/inner/a.json"));
            let gate = place.gate(&[]);
            let refused = gate.check_path(&path).unwrap_err();
            assert!(refused.contains("is ever sent"), "{directory}: {refused}");
        }
        let home = "config.yaml .env auth.json auth.lock secrets.json secrets.key gateway.json";
        for file in home.split(' ') {
            let path = place.write(&format!("user/.hermes/{file}"));
            assert!(gate.check_path(&path).is_err(), "{file}");
        }
    }

    #[test]
    fn nothing_of_a_hub_is_sent_but_for_files_of_the_tenants_own_home() {
        let place = GateFixture::new();
        place.write("hub/hub.lock");
        let token = place.write("hub/admin.token");
        let other = place.write("hub/tenants/b/home/workspace/a.png");
        let own = place.write("hub/tenants/a/home/workspace/a.png");
        assert!(place.gate(&[]).check_path(&token).is_err());
        let home = Home::at(place.root.join("hub/tenants/a/home"));
        let gate = MediaGate::new(&home, None, &[]);
        assert_eq!(gate.check_path(&own), Ok(own.into()));
        assert!(gate.check_path(&other).is_err());
    }

    #[test]
    fn a_link_is_judged_by_where_it_leads() {
        let place = GateFixture::new();
        place.write("user/.ssh/id.txt");
        symlink(
            place.root.join("user/.ssh/id.txt"),
            place.root.join("harmless.txt"),
        )
        .unwrap();
        let harmless = place.root.join("harmless.txt");
        assert!(
            place
                .gate(&[])
                .check_path(harmless.to_str().unwrap())
                .is_err()
        );
        let resolve_context = place.root.join("user/x/../.ssh/id.txt");
        fs::create_dir(place.root.join("user/x")).unwrap();
        assert!(
            place
                .gate(&[])
                .check_path(resolve_context.to_str().unwrap())
                .is_err()
        );
    }

    #[test]
    fn the_cache_and_named_directories_are_allowed_in_any_place() {
        let place = GateFixture::new();
        let inside = place.write("user/.config/out/a.png");
        assert!(place.gate(&[]).check_path(&inside).is_err());
        let allowed = [place.root.join("user/.config/out")];
        assert!(place.gate(&allowed).check_path(&inside).is_ok());
        let cached = place.write("user/.hermes/cache/images/a.png");
        assert!(place.gate(&[]).check_path(&cached).is_ok());
    }

    #[test]
    fn a_tilde_is_the_users_directory() {
        let place = GateFixture::new();
        let path = place.write("user/a.png");
        assert_eq!(place.gate(&[]).check_path("~/a.png"), Ok(path.into()));
    }

    #[test]
    fn a_profile_does_not_reach_the_home_around_it() {
        let place = GateFixture::new();
        let secret = place.write("h/.env");
        let home = Home::at(place.root.join("h/profiles/work"));
        fs::create_dir_all(home.path()).unwrap();
        assert!(
            MediaGate::new(&home, None, &[])
                .check_path(&secret)
                .is_err()
        );
    }
}
