//! What has to run before a server from a repository can be used.

use std::path::{Path, PathBuf};

use super::{INSTALL_DIR, Manifest};

/// One program to run to its end. There is no shell between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallStep {
    pub program: String,
    pub args: Vec<String>,
    /// Where it runs; `None`: anywhere.
    pub directory: Option<PathBuf>,
}

/// The steps that put a server into `install_dir`, which must not exist yet. None for a server that is a package.
pub fn install_steps(manifest: &Manifest, install_dir: &Path) -> Vec<InstallStep> {
    let Some(install) = &manifest.install else {
        return Vec::new();
    };
    let directory = install_dir.display().to_string();
    let git = |args: &[&str], directory: Option<&Path>| InstallStep {
        program: "git".to_owned(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        directory: directory.map(Path::to_owned),
    };
    let clone = git(&["clone", "--", &install.repository, &directory], None);
    let checkout = git(
        &["checkout", "--detach", &install.reference],
        Some(install_dir),
    );
    let commands = install.commands.iter().filter_map(|command| {
        let mut words = command
            .iter()
            .map(|word| word.replace(&format!("${{{INSTALL_DIR}}}"), &directory));
        Some(InstallStep {
            program: words.next()?,
            args: words.collect(),
            directory: Some(install_dir.to_owned()),
        })
    });
    [clone, checkout].into_iter().chain(commands).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "\
version: 1
id: notes
title: Notes
description: Keeps notes
homepage: https://example.com
transport: { command: '${INSTALL_DIR}/notes' }
install:
  repository: https://example.com/notes.git
  reference: v1.2.0
  commands: [[cargo, build, --release], [cp, target/release/notes, '${INSTALL_DIR}/notes']]
";

    #[test]
    fn the_pinned_version_is_cloned_and_built_in_place() {
        let manifest = Manifest::parse(MANIFEST).unwrap();
        let steps = install_steps(&manifest, Path::new("/opt/my notes"));
        let lines: Vec<_> = steps
            .iter()
            .map(|step| format!("{} {}", step.program, step.args.join(" ")))
            .collect();
        assert_eq!(
            lines,
            [
                "git clone -- https://example.com/notes.git /opt/my notes",
                "git checkout --detach v1.2.0",
                "cargo build --release",
                "cp target/release/notes /opt/my notes/notes",
            ]
        );
        assert_eq!(steps[0].directory, None);
        assert!(
            steps[1..]
                .iter()
                .all(|step| step.directory.as_deref() == Some(Path::new("/opt/my notes")))
        );
    }

    #[test]
    fn a_package_needs_no_steps() {
        let manifest = MANIFEST
            .split("install:")
            .next()
            .unwrap()
            .replace("${INSTALL_DIR}/", "");
        assert_eq!(
            install_steps(&Manifest::parse(&manifest).unwrap(), Path::new("/x")),
            []
        );
    }
}
