//! Finds programs of this workspace from another crate's tests, and builds them if they are missing or old.

use std::{
    fs::OpenOptions,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

/// The crate whose programs [`binary`] finds.
const OWN_PACKAGE: &str = env!("CARGO_PKG_NAME");

/// The path of a program of this crate, for instance `testkit-stdio`.
///
/// Tests of other crates do not make cargo build our programs, so this builds them when there is none, or
/// when the sources are newer.
///
/// # Panics
///
/// If the program cannot be found or built.
pub fn binary(name: &str) -> PathBuf {
    binary_of(OWN_PACKAGE, name)
}

/// The same for a program of another crate of this workspace.
///
/// # Panics
///
/// If the program cannot be found or built.
pub fn binary_of(package: &str, name: &str) -> PathBuf {
    let directory = profile_directory();
    let path = directory.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    if !is_current(&directory, package, &path) {
        build_package(&directory, package, &path);
    }
    assert!(
        path.exists(),
        "{} is missing: build it with `cargo build -p {package} --bins`",
        path.display()
    );
    path
}

/// A file that is locked during a build and carries its time.
fn stamp(directory: &Path, package: &str) -> PathBuf {
    directory.join(format!(".{package}.build"))
}

/// The directory in which cargo puts programs, seen from a test program in its `deps`.
fn profile_directory() -> PathBuf {
    let executable =
        std::env::current_exe().unwrap_or_else(|error| panic!("a test has an executable: {error}"));
    let directory = executable.parent().unwrap_or(Path::new("."));
    match directory.file_name() {
        Some(name) if name == "deps" || name == "examples" => {
            directory.parent().unwrap_or(directory).to_owned()
        }
        _ => directory.to_owned(),
    }
}

/// Whether a program is at least as new as the sources. Not every change makes cargo write it anew, so
/// the time of the last build counts too.
fn is_current(directory: &Path, package: &str, program: &Path) -> bool {
    let changed = |path: &Path| path.metadata().and_then(|found| found.modified()).ok();
    let Some(written) = changed(program) else {
        return false;
    };
    let built = changed(&stamp(directory, package));
    let built = built.map_or(written, |built| built.max(written));
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name(package);
    let sources = package.join("src");
    newest_source(&sources).is_none_or(|newest| newest <= built)
}

/// When the newest file below a directory was changed; `None` where the sources are gone.
fn newest_source(directory: &Path) -> Option<SystemTime> {
    let entries = std::fs::read_dir(directory).ok()?;
    entries
        .flatten()
        .filter_map(|entry| {
            let path = entry.path();
            if path.is_dir() {
                newest_source(&path)
            } else {
                entry.metadata().ok()?.modified().ok()
            }
        })
        .max()
}

/// Builds all programs, once for however many tests ask at the same time.
fn build_package(directory: &Path, package: &str, program: &Path) {
    let stamp = OpenOptions::new()
        .create(true)
        .append(true)
        .open(stamp(directory, package))
        .and_then(|file| file.lock().map(|()| file))
        .unwrap_or_else(|error| panic!("cannot lock {}: {error}", directory.display()));
    if is_current(directory, package, program) {
        return;
    }
    let begun = SystemTime::now();
    let profile = match directory.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--package", package, "--bins"])
        .args(["--profile", profile, "--target-dir"])
        .arg(directory.parent().unwrap_or(directory))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output();
    match built {
        Ok(output) if output.status.success() => {
            // If the time cannot be set, the next test asks cargo again.
            let _ = stamp.set_modified(begun);
        }
        Ok(output) => panic!(
            "building {package} failed: build it with `cargo build -p {package} --bins`\n{}",
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(error) => {
            panic!("cargo does not run ({error}): build it with `cargo build -p {package} --bins`")
        }
    }
}
