//! Well-known servers that can be added by their id, each described by a manifest.
//!
//! The built-in manifests are in `catalog/*.yaml`; a home can add its own or replace them. [`prepare_entry`] turns a manifest
//! and the user's answers into an entry; [`install_steps`] says what has to run first. Running it and saving the entry
//! is left to the caller.

pub(crate) mod built_in;
mod manifest;
mod prepare;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

pub use crate::catalog::prepare::{InstallStep, install_steps};
pub use manifest::{GitInstall, INSTALL_DIR, Manifest, ManifestPrompt, ToolChoice, Transport};
pub use prepare::{PreparedEntry, prepare_entry};

/// Why a manifest cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// It is not a manifest of version 1.
    #[error("{}: {reason}", path.display())]
    Manifest {
        path: PathBuf,
        /// What is wrong, with line and column where known.
        reason: String,
    },
    /// A question without a default was not answered.
    #[error("`{variable}` is needed: {question}")]
    Unanswered {
        /// The prompt's variable.
        variable: String,
        /// What to ask the user.
        question: String,
    },
    /// The server is installed from its repository, and no directory was given.
    #[error("`{id}` needs a directory to be installed in")]
    NoInstallDirectory { id: String },
}

macro_rules! embedded {
    ($($id:literal),* $(,)?) => {
        [$((concat!($id, ".yaml"), include_str!(concat!("catalog/", $id, ".yaml")))),*]
    };
}

/// File names and texts, in the order they are shown.
const EMBEDDED: [(&str, &str); 13] = embedded![
    "filesystem",
    "git",
    "github",
    "fetch",
    "context7",
    "playwright",
    "memory",
    "sequential-thinking",
    "time",
    "sqlite",
    "sentry",
    "deepwiki",
    "everything",
];

/// The servers on offer.
#[derive(Debug)]
pub struct Catalog {
    entries: Vec<Manifest>,
    problems: Vec<CatalogError>,
}

impl Catalog {
    /// The built-in manifests, and those in `<home>/catalog/*.yaml`, which win over built-in ones of the same id.
    pub fn load(home: &Path) -> Self {
        let mut catalog = Self {
            entries: Vec::new(),
            problems: Vec::new(),
        };
        for (file, text) in EMBEDDED {
            catalog.add(Path::new(file), text);
        }
        match manifest_files(&home.join("catalog")) {
            Ok(files) => {
                for path in files {
                    match fs::read_to_string(&path) {
                        Ok(text) => catalog.add(&path, &text),
                        Err(source) => catalog.problems.push(CatalogError::Read { path, source }),
                    }
                }
            }
            Err(problem) => catalog.problems.push(problem),
        }
        catalog
    }

    /// Every usable manifest.
    pub fn entries(&self) -> &[Manifest] {
        &self.entries
    }

    /// The manifest of that id.
    pub fn find(&self, id: &str) -> Option<&Manifest> {
        self.entries.iter().find(|manifest| manifest.id == id)
    }

    /// Manifests that cannot be used, and why.
    pub fn problems(&self) -> &[CatalogError] {
        &self.problems
    }

    fn add(&mut self, path: &Path, text: &str) {
        match Manifest::parse(text) {
            Ok(manifest) => match self
                .entries
                .iter_mut()
                .find(|entry| entry.id == manifest.id)
            {
                Some(entry) => *entry = manifest,
                None => self.entries.push(manifest),
            },
            Err(reason) => self.problems.push(CatalogError::Manifest {
                path: path.to_owned(),
                reason,
            }),
        }
    }
}

/// In order of name, so that the catalog reads the same everywhere.
fn manifest_files(directory: &Path) -> Result<Vec<PathBuf>, CatalogError> {
    let failed = |source| CatalogError::Read {
        path: directory.to_owned(),
        source,
    };
    let listing = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listing => listing.map_err(failed)?,
    };
    let mut files = Vec::new();
    for file in listing {
        let path = file.map_err(failed)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml" || extension == "yml")
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn every_built_in_manifest_loads_and_is_named_after_its_id() {
        let home = tempfile::tempdir().unwrap();
        let catalog = Catalog::load(home.path());
        assert!(catalog.problems().is_empty(), "{:?}", catalog.problems());
        assert_eq!(catalog.entries().len(), EMBEDDED.len());
        for ((file, _), manifest) in EMBEDDED.iter().zip(catalog.entries()) {
            assert_eq!(*file, format!("{}.yaml", manifest.id));
            assert!(manifest.homepage.starts_with("https://"), "{file}");
        }
    }

    #[test]
    fn every_manifest_file_is_built_in() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/catalog");
        let files = manifest_files(&directory).unwrap();
        let files: BTreeSet<_> = files
            .iter()
            .map(|path| path.file_name().unwrap().to_str().unwrap())
            .collect();
        assert_eq!(files, EMBEDDED.iter().map(|(file, _)| *file).collect());
    }

    #[test]
    fn every_built_in_manifest_gives_an_entry_without_open_questions() {
        let home = tempfile::tempdir().unwrap();
        for manifest in Catalog::load(home.path()).entries() {
            let answers: BTreeMap<_, _> = manifest
                .prompts
                .iter()
                .map(|prompt| (prompt.variable.clone(), "answer".to_owned()))
                .collect();
            let prepared = prepare_entry(manifest, &answers, None).unwrap();
            let text = prepared.entry.to_string();
            let open = text
                .split("${")
                .skip(1)
                .filter_map(|rest| rest.split_once('}'))
                .map(|(name, _)| name);
            let known: BTreeSet<_> = prepared
                .variables
                .iter()
                .map(|variable| variable.name.as_str())
                .collect();
            assert_eq!(
                open.collect::<BTreeSet<_>>(),
                known,
                "{}: {text}",
                manifest.id
            );
        }
    }

    #[test]
    fn a_home_adds_and_replaces_manifests_and_a_broken_one_is_named() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("catalog");
        fs::create_dir(&directory).unwrap();
        let own = "version: 1\nid: time\ntitle: Our clock\ndescription: d\nhomepage: https://example.com\n\
                   transport:\n  command: our-clock\n";
        fs::write(directory.join("clock.yaml"), own).unwrap();
        fs::write(
            directory.join("new.yaml"),
            own.replace("id: time", "id: new"),
        )
        .unwrap();
        fs::write(directory.join("old.yaml"), "version: 2\n").unwrap();
        fs::write(directory.join("notes.txt"), "not a manifest").unwrap();

        let catalog = Catalog::load(home.path());
        assert_eq!(catalog.find("time").unwrap().title, "Our clock");
        assert!(catalog.find("new").is_some());
        assert_eq!(catalog.entries().len(), EMBEDDED.len() + 1);
        let problems: Vec<_> = catalog.problems().iter().map(ToString::to_string).collect();
        assert_eq!(problems.len(), 1);
        assert!(problems[0].contains("old.yaml"), "{problems:?}");
    }
}
