use serde_json::json;

use super::*;

fn opened(root: &str, hermes: &str, directory: &Path) -> Vec<String> {
    let (root, hermes, user) = (
        directory.join(root),
        directory.join(hermes),
        directory.join("ann"),
    );
    let sandbox = SandboxContext {
        root: &root,
        hermes_home: &hermes,
        user_home: Some(&user),
        io: CommandIo::Pipes,
        extra_readable: &[],
    };
    let mut open = Vec::new();
    open_paths_around(&root, &sandbox, &mut open);
    let directory = directory.canonicalize().unwrap();
    let mut open: Vec<String> = open
        .iter()
        .map(|path| path.strip_prefix(&directory).unwrap().display().to_string())
        .collect();
    open.sort();
    open
}

#[test]
fn a_directory_is_opened_without_the_home_and_the_hidden_files_around_it() {
    let base = tempfile::tempdir().unwrap();
    let base = base.path();
    for directory in [
        "ann/project/.git",
        "ann/notes",
        "ann/.ssh",
        "ann/.hermes/workspace/x",
        "ann/.hermes/cron",
        "ann/visible/hermes/workspace",
        "other",
    ] {
        fs::create_dir_all(base.join(directory)).unwrap();
    }
    fs::write(base.join("ann/.bashrc"), "").unwrap();
    std::os::unix::fs::symlink(base.join("ann/.ssh"), base.join("ann/link")).unwrap();
    let hermes = "ann/.hermes";
    assert_eq!(opened("ann/project", hermes, base), ["ann/project"]);
    assert_eq!(
        opened("ann", hermes, base),
        ["ann/notes", "ann/project", "ann/visible"]
    );
    assert_eq!(
        opened("", hermes, base),
        ["ann/notes", "ann/project", "ann/visible", "other"]
    );
    assert!(opened("ann/.hermes", hermes, base).is_empty());
    assert!(opened("ann/.hermes/cron", hermes, base).is_empty());
    assert_eq!(
        opened("ann/.hermes/workspace/x", hermes, base),
        ["ann/.hermes/workspace/x"]
    );
    let visible = "ann/visible/hermes";
    assert!(opened("ann/visible", visible, base).is_empty());
    assert_eq!(
        opened("ann/visible/hermes/workspace", visible, base),
        ["ann/visible/hermes/workspace"]
    );
}

#[test]
fn the_configuration_can_ask_for_more_and_never_for_less() {
    let bounds = |least| CommandBounds {
        min_level: least,
        ..CommandBounds::default()
    };
    let of = |word: Value| json!({"terminal": {"sandbox": word, "sandbox_write": ["/srv"]}});
    let open = Confinement::new(&of(json!(false)), CommandBounds::default());
    assert_eq!(open.level(), CommandSandbox::Off);
    let bounded = Confinement::new(&of(json!("off")), bounds(CommandSandbox::Workspace));
    assert_eq!(bounded.level(), CommandSandbox::Workspace);
    assert!(bounded.write.is_empty(), "{bounded:?}");
    let strict = Confinement::new(&of(json!("strict")), bounds(CommandSandbox::Workspace));
    assert_eq!(strict.level(), CommandSandbox::Strict);
    let odd = Confinement::new(&of(json!("wrokspace")), CommandBounds::default());
    assert_eq!(odd.level(), CommandSandbox::Strict);
    assert_eq!(odd.write, [PathBuf::from("/srv")]);
}

#[test]
fn what_is_in_force_is_told_and_what_is_not() {
    let all = SandboxSupport {
        landlock: Some(6),
        seccomp: true,
    };
    assert!(describe(CommandSandbox::Off, all).contains("heuristic"));
    assert!(describe(CommandSandbox::Strict, all).contains("no network"));
    assert!(describe(CommandSandbox::Workspace, SandboxSupport::NONE).contains("not in force"));
}
