#![cfg(unix)]

use std::{ffi::OsString, fs, os::unix::fs::PermissionsExt};

use hermes_config::server::SandboxSettings;

use super::*;

const FULL: SandboxSupport = SandboxSupport {
    landlock: Some(6),
    seccomp: true,
};

/// A user with a home, in which everything happens.
struct User {
    directory: tempfile::TempDir,
    server: ServerName,
    home: Home,
    environment: Environment,
}

impl User {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let environment = vec![
            (OsString::from("HOME"), root.clone().into_os_string()),
            ("PATH".into(), root.join("tools/bin").into_os_string()),
        ];
        Self {
            server: ServerName::new("my server"),
            home: Home::at(root.join(".hermes")),
            environment,
            directory,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    /// Makes an executable file.
    fn program(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        path
    }

    fn confine(
        &self,
        program: &Path,
        settings: &SandboxSettings,
        support: SandboxSupport,
    ) -> Outcome {
        let subject = SandboxTarget {
            server: &self.server,
            settings,
            program,
            environment: &self.environment,
            cwd: &self.path(""),
            home: &self.home,
        };
        subject.plan_sandbox(support)
    }
}

type Outcome = Result<AppliedSandbox, UnsupportedSandbox>;

fn denied(required: bool) -> SandboxSettings {
    SandboxSettings {
        enabled: true,
        network_denied: true,
        required,
        ..SandboxSettings::default()
    }
}

#[test]
fn lists_are_expanded_and_what_is_missing_is_said() {
    let user = User::new();
    fs::create_dir(user.path("data")).unwrap();
    fs::create_dir(user.path("work")).unwrap();
    let settings = SandboxSettings {
        enabled: true,
        read: vec!["~/data".into(), "gone".into()],
        write: vec!["work".into()],
        ..SandboxSettings::default()
    };
    let program = user.program("tools/server", "");
    let confined = user.confine(&program, &settings, FULL).unwrap();
    assert!(confined.plan.read.contains(&user.path("data")));
    assert!(confined.plan.read.contains(&user.path("tools")));
    assert_eq!(
        confined.plan.write,
        [
            user.path(".hermes/cache/sandbox/my_server"),
            user.path("work")
        ]
    );
    assert_eq!(confined.warnings.len(), 1);
    assert!(
        confined.warnings[0].contains("`sandbox.read`"),
        "{confined:?}"
    );
}

#[test]
fn a_program_beside_everything_else_opens_itself_alone() {
    let user = User::new();
    let program = user.program("server", "");
    let confined = user
        .confine(&program, &SandboxSettings::default(), FULL)
        .unwrap();
    assert_eq!(confined.plan.read, [program]);
}

#[test]
fn an_installation_and_the_interpreter_of_a_script_belong_to_the_program() {
    let user = User::new();
    let script = user.program(
        "app/node_modules/server/dist/index.js",
        "#!/usr/bin/env node\n",
    );
    user.program("tools/bin/node", "");
    fs::create_dir(user.path("tools/lib")).unwrap();
    fs::create_dir(user.path("tools/private")).unwrap();
    let link = user.path("app/node_modules/.bin/server");
    fs::create_dir(link.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(&script, &link).unwrap();
    let confined = user
        .confine(&link, &SandboxSettings::default(), FULL)
        .unwrap();
    let expected = ["app/node_modules", "tools/bin", "tools/lib"];
    assert_eq!(confined.plan.read, expected.map(|name| user.path(name)));
}

#[test]
fn a_package_runner_keeps_its_cache_and_a_client_of_a_service_is_warned_of() {
    let user = User::new();
    let npx = user.program("tools/bin/npx", "");
    let settings = SandboxSettings::default();
    let confined = user.confine(&npx, &settings, FULL).unwrap();
    assert!(confined.plan.write.contains(&user.path(".npm")));

    let docker = user.program("tools/bin/docker", "");
    let confined = user.confine(&docker, &settings, FULL).unwrap();
    assert!(confined.warnings[0].contains("outside"), "{confined:?}");
}

#[test]
fn what_the_kernel_lacks_is_a_warning_or_a_refusal() {
    let user = User::new();
    let program = user.program("tools/server", "");
    let files_only = SandboxSupport {
        landlock: Some(4),
        seccomp: false,
    };
    for (support, expected) in [
        (SandboxSupport::NONE, "no Landlock"),
        (files_only, "only TCP is closed"),
    ] {
        let confined = user.confine(&program, &denied(false), support).unwrap();
        assert!(confined.warnings[0].contains(expected), "{confined:?}");
        let refused = user.confine(&program, &denied(true), support).unwrap_err();
        assert!(refused.to_string().contains(expected), "{refused}");
    }
    let confined = user.confine(&program, &denied(true), FULL).unwrap();
    assert_eq!(confined.warnings, [""; 0]);
    assert_eq!(
        confined.to_string(),
        "files by Landlock 6, system calls by seccomp, network denied"
    );
}
