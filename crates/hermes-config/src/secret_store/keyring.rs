//! The system's keyring, by the program that the system has for it: `secret-tool` of the Secret Service, `security` of
//! macOS. Entries have the service `hermes` and the secret's name as their user.

use std::{
    env, fmt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use crate::{Secret, Variables, hex::to_hex, program};

const SERVICE: &str = "hermes";
/// Long enough for somebody to unlock it.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(super) struct SystemKeyring {
    kind: KeyringKind,
    program: PathBuf,
    variables: Variables,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyringKind {
    SecretService,
    MacOs,
}

impl fmt::Debug for SystemKeyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.kind)
    }
}

impl SystemKeyring {
    /// The keyring of this session. On Linux that takes a session bus, which servers and containers do not have.
    pub(super) fn find(variables: &Variables) -> Option<Self> {
        if cfg!(target_os = "macos") {
            return Self::find_program(KeyringKind::MacOs, variables);
        }
        let bus = variables.get("DBUS_SESSION_BUS_ADDRESS")?;
        (!bus.is_empty()).then_some(())?;
        Self::find_program(KeyringKind::SecretService, variables)
    }

    fn find_program(kind: KeyringKind, variables: &Variables) -> Option<Self> {
        let name = match kind {
            KeyringKind::SecretService => "secret-tool",
            KeyringKind::MacOs => "security",
        };
        let mut places = env::split_paths(variables.get("PATH")?);
        let program = places.find_map(|place| Some(place.join(name)).filter(|p| is_program(p)))?;
        Some(Self {
            kind,
            program,
            variables: variables.clone(),
        })
    }

    /// The value, if there is one.
    pub(super) fn get(&self, name: &str) -> Result<Option<Secret<String>>, String> {
        let arguments: &[&str] = match self.kind {
            KeyringKind::SecretService => &["lookup", "service", SERVICE, "username", name],
            KeyringKind::MacOs => &["find-generic-password", "-s", SERVICE, "-a", name, "-w"],
        };
        match self.run_program(arguments, None) {
            Ok(value) if value.is_empty() => Ok(None),
            Ok(value) => Ok(Some(Secret::new(value))),
            // Both programs end so when there is no such entry.
            Err(reason) if reason.ends_with("exit status: 1") => Ok(None),
            Err(reason) if reason.ends_with("exit status: 44") => Ok(None),
            Err(reason) => Err(reason),
        }
    }

    /// Values go through a pipe: arguments are for everybody to see.
    pub(super) fn set(&self, name: &str, value: &Secret<String>) -> Result<(), String> {
        match self.kind {
            KeyringKind::SecretService => {
                let label = format!("--label=hermes: {name}");
                let arguments = ["store", &label, "service", SERVICE, "username", name];
                self.run_program(&arguments, Some(value))?;
            }
            KeyringKind::MacOs => {
                let hex = to_hex(value.expose().as_bytes());
                let line = format!("add-generic-password -U -s {SERVICE} -a {name} -X {hex}\n");
                self.run_program(&["-i"], Some(&Secret::new(line)))?;
            }
        }
        // Some of them exit with success when they fail.
        match self.get(name)? {
            Some(kept) if kept == *value => Ok(()),
            _ => Err("it did not keep the value".into()),
        }
    }

    pub(super) fn remove(&self, name: &str) -> Result<(), String> {
        let arguments: &[&str] = match self.kind {
            KeyringKind::SecretService => &["clear", "service", SERVICE, "username", name],
            KeyringKind::MacOs => &["delete-generic-password", "-s", SERVICE, "-a", name],
        };
        self.run_program(arguments, None).map(drop)
    }

    fn run_program(
        &self,
        arguments: &[&str],
        input: Option<&Secret<String>>,
    ) -> Result<String, String> {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .env_clear()
            .envs(self.variables.iter())
            .stderr(Stdio::null());
        program::run_program(&mut command, input, TIMEOUT)
    }
}

fn is_program(path: &Path) -> bool {
    path.is_file()
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    /// A keyring that keeps its entries as files: the two programs with the commands that are used here.
    fn keyring(kind: KeyringKind) -> (tempfile::TempDir, SystemKeyring) {
        let directory = tempfile::tempdir().unwrap();
        let (name, script) = match kind {
            KeyringKind::SecretService => (
                "secret-tool",
                r#"echo "$@" >>"$KEEP/log"
case "$1" in
store) cat >"$KEEP/$6" ;;
lookup) cat "$KEEP/$5" 2>/dev/null || exit 1 ;;
clear) rm "$KEEP/$5" ;;
esac"#,
            ),
            KeyringKind::MacOs => (
                "security",
                r#"echo "$@" >>"$KEEP/log"
case "$1" in
-i) read line; set -- $line; printf "$(printf %s "$8" | sed 's/../\\x&/g')" >"$KEEP/$6" ;;
find-generic-password) cat "$KEEP/$5" 2>/dev/null || exit 44 ;;
delete-generic-password) rm "$KEEP/$5" ;;
esac"#,
            ),
        };
        let program = directory.path().join(name);
        fs::write(&program, format!("#!/bin/bash\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let place = directory.path().to_str().unwrap();
        let path = format!("{place}:{}", env::var("PATH").unwrap());
        let variables = Variables::from_pairs([
            ("PATH", path.as_str()),
            ("KEEP", place),
            ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere"),
        ]);
        let keyring = SystemKeyring::find_program(kind, &variables).unwrap();
        (directory, keyring)
    }

    #[test]
    fn a_value_is_kept_read_and_removed_and_never_an_argument() {
        for kind in [KeyringKind::SecretService, KeyringKind::MacOs] {
            let (directory, keyring) = keyring(kind);
            assert_eq!(keyring.get("git").unwrap(), None, "{kind:?}");
            let value = Secret::new("p4ss w0rd".to_owned());
            keyring.set("git", &value).unwrap();
            assert_eq!(keyring.get("git").unwrap(), Some(value), "{kind:?}");
            keyring.remove("git").unwrap();
            assert_eq!(keyring.get("git").unwrap(), None, "{kind:?}");
            let log = fs::read_to_string(directory.path().join("log")).unwrap();
            assert!(!log.contains("p4ss"), "{log}");
            assert!(log.contains("hermes"), "{log}");
        }
    }

    #[test]
    fn a_keyring_that_loses_what_it_is_given_is_noticed() {
        let (directory, keyring) = keyring(KeyringKind::SecretService);
        fs::write(&keyring.program, "#!/bin/sh\nexit 0\n").unwrap();
        let error = keyring.set("git", &Secret::new("x".into())).unwrap_err();
        assert!(error.contains("did not keep"), "{error}");
        fs::write(&keyring.program, "#!/bin/sh\nexit 3\n").unwrap();
        assert!(keyring.get("git").is_err());
        drop(directory);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn without_a_session_bus_there_is_no_keyring() {
        let (_directory, keyring) = keyring(KeyringKind::SecretService);
        assert!(SystemKeyring::find(&keyring.variables).is_some());
        let path = keyring.variables.get("PATH").unwrap();
        assert!(SystemKeyring::find(&Variables::from_pairs([("PATH", path)])).is_none());
    }
}
