//! The shape of the workspace: who may use whom, how long a file may get, and what opens it.

mod circles;
mod modules;
mod names;
mod source;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use cargo_metadata::{DependencyKind, MetadataCommand};

/// Which of our crates a crate may use. Tests, benchmarks and the conformance suite may use the
/// testkit, nobody else.
const MAY_USE: [(&str, &[&str]); 12] = [
    ("hermes-protocol", &[]),
    ("hermes-config", &[]),
    ("hermes-store", &["hermes-config"]),
    ("hermes-serve", &["hermes-config"]),
    ("hermes-mcp", &["hermes-config", "hermes-serve"]),
    (
        "hermes-agent",
        &[
            "hermes-config",
            "hermes-store",
            "hermes-mcp",
            "hermes-protocol",
        ],
    ),
    (
        "hermes-gateway",
        &[
            "hermes-agent",
            "hermes-config",
            "hermes-mcp",
            "hermes-protocol",
            "hermes-serve",
            "hermes-store",
        ],
    ),
    (
        "hermes-hub",
        &[
            "hermes-config",
            "hermes-protocol",
            "hermes-serve",
            "hermes-store",
        ],
    ),
    (
        "hermes",
        &[
            "hermes-agent",
            "hermes-config",
            "hermes-gateway",
            "hermes-hub",
            "hermes-mcp",
            "hermes-protocol",
            "hermes-serve",
            "hermes-store",
        ],
    ),
    ("hermes-testkit", &[]),
    (
        "hermes-conformance",
        &[
            "hermes-config",
            "hermes-gateway",
            "hermes-hub",
            "hermes-mcp",
            "hermes-serve",
            "hermes-testkit",
        ],
    ),
    (
        "hermes-bench",
        &[
            "hermes-agent",
            "hermes-config",
            "hermes-gateway",
            "hermes-hub",
            "hermes-mcp",
            "hermes-store",
            "hermes-testkit",
        ],
    ),
];

const MOST_LINES: usize = 500;

/// Files that may be longer, and why.
const LONGER: [(&str, &str); 2] = [
    (
        "crates/hermes-agent/src/approval/command/classify/tests.rs",
        "the commands that are blocked, asked about and let through, best read as one list",
    ),
    (
        "crates/hermes/src/import/tests.rs",
        "the same questions to each of nine products, best read side by side",
    ),
];

fn workspace() -> PathBuf {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    directory.canonicalize().unwrap()
}

/// The sources of the workspace, relative to it.
fn sources() -> Vec<PathBuf> {
    let root = workspace();
    let mut files = Vec::new();
    for directory in ["crates", "conformance", "bench"] {
        collect(&root.join(directory), &mut files);
    }
    assert!(files.len() > 50, "the sources were not found");
    files.sort();
    files
        .iter()
        .map(|file| file.strip_prefix(&root).unwrap().to_owned())
        .collect()
}

/// The crates that are libraries, by name and directory.
fn crates() -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(workspace().join("crates")).unwrap();
    let mut crates: Vec<(String, PathBuf)> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|directory| directory.join("src/lib.rs").exists())
        .map(|directory| {
            let name = directory.file_name().unwrap().to_str().unwrap();
            (name.to_owned(), directory.clone())
        })
        .collect();
    assert!(crates.len() > 5, "the crates were not found");
    crates.sort();
    crates
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                collect(&path, files);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

#[test]
fn crates_use_only_what_they_may() {
    let metadata = MetadataCommand::new()
        .manifest_path(workspace().join("Cargo.toml"))
        .no_deps()
        .other_options(["--offline".to_owned()])
        .exec()
        .unwrap();
    let allowed: BTreeMap<&str, &[&str]> = MAY_USE.into_iter().collect();
    let mut found = Vec::new();
    for package in &metadata.packages {
        let name = package.name.as_str();
        let may_use = allowed
            .get(name)
            .unwrap_or_else(|| panic!("`{name}` is new: add it to MAY_USE"));
        found.push(name);
        for dependency in package.dependencies.iter().filter(|one| one.path.is_some()) {
            let used = dependency.name.as_str();
            let is_for_tests =
                dependency.kind == DependencyKind::Development && used == "hermes-testkit";
            assert!(
                is_for_tests || may_use.contains(&used),
                "`{name}` must not use `{used}`"
            );
        }
    }
    assert_eq!(
        found.len(),
        MAY_USE.len(),
        "MAY_USE names a crate that is gone"
    );
}

#[test]
fn no_file_has_grown_too_long() {
    let root = workspace();
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    for file in sources() {
        let length = fs::read_to_string(root.join(&file))
            .unwrap()
            .lines()
            .filter(is_code)
            .count();
        let excused = LONGER.iter().any(|(path, _)| Path::new(path) == file);
        assert!(
            excused || length <= MOST_LINES,
            "{} has {length} lines of code: split it, or add it to LONGER with the reason",
            file.display()
        );
        assert!(
            !excused || length > MOST_LINES,
            "{} need not be in LONGER any more",
            file.display()
        );
    }
}

#[test]
fn every_module_opens_with_what_it_owns() {
    let root = workspace();
    // Tests say what they are about by their names.
    let needs_words = |file: &PathBuf| {
        let mut parts = file.iter();
        !file.ends_with("tests.rs") && parts.all(|part| part != "tests")
    };
    for file in sources().into_iter().filter(needs_words) {
        let text = fs::read_to_string(root.join(&file)).unwrap();
        let is_unwritten = text.trim() == "fn main() {}";
        assert!(
            is_unwritten || text.starts_with("//! "),
            "{} opens without `//!`",
            file.display()
        );
    }
}

#[test]
fn no_test_file_is_forgotten() {
    let root = workspace();
    for main in sources()
        .into_iter()
        .filter(|file| file.ends_with("tests/it/main.rs"))
    {
        let text = fs::read_to_string(root.join(&main)).unwrap();
        let directory = root.join(main.parent().unwrap());
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let module = path.file_stem().unwrap().to_str().unwrap();
            let is_source = path.extension().is_some_and(|extension| extension == "rs");
            assert!(
                !is_source || module == "main" || text.contains(&format!("mod {module};")),
                "{} is in no test binary: add `mod {module};` to {}",
                path.display(),
                main.display()
            );
        }
    }
}
