//! The tables of modules in ARCHITECTURE.md are those of the code.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Crates whose modules have a table.
const TABLES: usize = 5;

#[test]
fn every_top_level_module_is_in_the_architecture() {
    let text = fs::read_to_string(super::workspace().join("ARCHITECTURE.md")).unwrap();
    let directories: BTreeMap<String, PathBuf> = super::crates().into_iter().collect();
    let sections: Vec<&str> = text.split("\nInside `").skip(1).collect();
    assert_eq!(sections.len(), TABLES, "the tables were not found");
    for section in sections {
        let (name, rest) = section.split_once('`').unwrap();
        assert_eq!(
            listed_modules(rest),
            top_level_modules(&directories[name].join("src")),
            "the table of `{name}` in ARCHITECTURE.md (left) is not the code (right)"
        );
    }
}

/// The modules in the first column of the first table: `a/b/` is in `a`.
fn listed_modules(text: &str) -> BTreeSet<String> {
    text.lines()
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .filter_map(|row| row.split('|').nth(1))
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .filter_map(|module| module.split('/').next())
        .map(str::to_owned)
        .collect()
}

fn top_level_modules(source: &Path) -> BTreeSet<String> {
    let paths = fs::read_dir(source)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .filter(|module| !["lib", "main"].contains(&module.as_str()))
        .collect()
}
