use std::os::unix::fs::symlink;

use super::*;

struct RulesFixture {
    _directory: tempfile::TempDir,
    root: PathBuf,
    map: PathRules,
}

fn rules_fixture() -> RulesFixture {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    for directory in ["user/.hermes/mcp-tokens", "user/.ssh", "work"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    fs::write(root.join("user/.hermes/.env"), "KEY=secret").unwrap();
    fs::write(root.join("user/.hermes/config.yaml"), "").unwrap();
    let protected = ProtectedPaths {
        hermes_home: Some(root.join("user/.hermes")),
        user_home: Some(root.join("user")),
        ..ProtectedPaths::default()
    };
    let map = PathRules::new(root.join("work"), protected);
    RulesFixture {
        _directory: directory,
        root,
        map,
    }
}

impl RulesFixture {
    fn guard(&self, path: &str) -> PathPermission {
        self.map
            .permission(&self.map.locate(path).unwrap(), AccessPurpose::Read)
    }

    fn is_forbidden(&self, path: &str) -> bool {
        matches!(self.guard(path), PathPermission::Deny { .. })
    }
}

#[test]
fn paths_are_relative_to_the_session_and_tilde_is_the_user() {
    let fixture = rules_fixture();
    assert_eq!(
        fixture.map.locate("a/./b/../c").unwrap(),
        fixture.root.join("work/a/c")
    );
    assert_eq!(
        fixture.map.locate("~/x").unwrap(),
        fixture.root.join("user/x")
    );
    assert_eq!(fixture.map.locate("~").unwrap(), fixture.root.join("user"));
    assert_eq!(
        fixture.map.locate("~x").unwrap(),
        fixture.root.join("work/~x")
    );
}

#[test]
fn no_spelling_leads_to_the_secrets_of_the_home() {
    let fixture = rules_fixture();
    let work = fixture.root.join("work");
    symlink("../user/.hermes/.env", work.join("link")).unwrap();
    symlink(fixture.root.join("user/.hermes"), work.join("home")).unwrap();
    symlink("link", work.join("link2")).unwrap();
    let absolute = fixture.root.join("user/.hermes/.env");
    let through_proc = format!("/proc/self/root{}", absolute.display());
    for path in [
        "../user/.hermes/.env",
        "~/.hermes/.env",
        "~/.hermes/.env.old",
        "~/.hermes/./skills/../.env",
        "missing/../../user/.hermes/.env",
        "link",
        "link2",
        "home/.env",
        "home/mcp-tokens/x.json",
        "home/mcp-tokens/../.env",
        &through_proc,
        "/proc/self/environ",
        "/proc/self/task/../environ",
    ] {
        assert!(fixture.is_forbidden(path), "{path}");
    }
    for path in ["~/.hermes/skills/x", ".env", "home", "~/.hermes/logs/a.log"] {
        assert_eq!(fixture.guard(path), PathPermission::Allow, "{path}");
    }
}

#[test]
fn a_link_that_leads_nowhere_is_judged_by_where_it_would_lead() {
    let fixture = rules_fixture();
    symlink(
        "../user/.hermes/mcp-tokens/new",
        fixture.root.join("work/dangling"),
    )
    .unwrap();
    assert!(fixture.is_forbidden("dangling"));
}

#[test]
fn a_loop_of_links_is_an_error() {
    let fixture = rules_fixture();
    symlink("b", fixture.root.join("work/a")).unwrap();
    symlink("a", fixture.root.join("work/b")).unwrap();
    assert!(fixture.map.locate("a").is_err());
}

#[test]
fn a_hard_link_to_a_secret_is_not_opened() {
    let fixture = rules_fixture();
    let link = fixture.root.join("work/innocent");
    fs::hard_link(fixture.root.join("user/.hermes/.env"), &link).unwrap();
    fs::write(fixture.root.join("user/.hermes/mcp-tokens/a"), "token").unwrap();
    let other = fixture.root.join("work/other");
    fs::hard_link(fixture.root.join("user/.hermes/mcp-tokens/a"), &other).unwrap();
    for path in [link, other] {
        assert_eq!(
            fixture.map.open(&path).unwrap_err().kind(),
            io::ErrorKind::PermissionDenied
        );
    }
    let plain = fixture.root.join("work/plain");
    fs::write(&plain, "x").unwrap();
    fs::hard_link(&plain, fixture.root.join("work/plain2")).unwrap();
    assert!(fixture.map.open(&plain).is_ok());
}

#[test]
fn a_home_behind_a_link_is_protected_too() {
    let fixture = rules_fixture();
    let link = fixture.root.join("hermes-link");
    symlink(fixture.root.join("user/.hermes"), &link).unwrap();
    let protected = ProtectedPaths {
        hermes_home: Some(link.clone()),
        user_home: None,
        ..ProtectedPaths::default()
    };
    let map = PathRules::new(fixture.root.clone(), protected);
    for path in ["user/.hermes/.env", "hermes-link/.env"] {
        let real = map.locate(path).unwrap();
        assert!(
            matches!(
                map.permission(&real, AccessPurpose::Read),
                PathPermission::Deny { .. }
            ),
            "{path}"
        );
    }
}

#[test]
fn keys_and_settings_are_asked_for_and_certificates_are_not() {
    let fixture = rules_fixture();
    fs::write(
        fixture.root.join("work/server.pem"),
        "-----BEGIN RSA PRIVATE KEY-----",
    )
    .unwrap();
    fs::write(
        fixture.root.join("work/chain.pem"),
        "-----BEGIN CERTIFICATE-----",
    )
    .unwrap();
    for path in ["~/.hermes/config.yaml", "~/.ssh/id_ed25519", "server.pem"] {
        assert!(
            matches!(fixture.guard(path), PathPermission::Ask { .. }),
            "{path}"
        );
    }
    for path in [
        "chain.pem",
        "~/.ssh/id_ed25519.pub",
        "config.yaml",
        "new.pem",
    ] {
        assert_eq!(fixture.guard(path), PathPermission::Allow, "{path}");
    }
}

#[test]
fn writing_is_asked_for_where_reading_is_free() {
    let fixture = rules_fixture();
    for path in ["/etc/hosts", "~/.bashrc", "~/.ssh/authorized_keys"] {
        let real = fixture.map.locate(path).unwrap();
        assert_eq!(
            fixture.map.permission(&real, AccessPurpose::Read),
            PathPermission::Allow,
            "{path}"
        );
        assert!(
            matches!(
                fixture.map.permission(&real, AccessPurpose::Write),
                PathPermission::Ask { .. }
            ),
            "{path}"
        );
    }
    let database = fixture.map.locate("~/.hermes/state.db").unwrap();
    assert!(matches!(
        fixture.map.permission(&database, AccessPurpose::Write),
        PathPermission::Deny { .. }
    ));
}

#[test]
fn a_pipe_is_refused_without_waiting_for_a_writer() {
    let fixture = rules_fixture();
    let path = fixture.root.join("work/pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    assert!(fixture.map.open(&path).is_err());
    assert!(fixture.map.open(&fixture.root).is_err());
}
