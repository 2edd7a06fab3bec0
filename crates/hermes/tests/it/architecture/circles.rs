//! No circle between the top-level modules of a crate: who reads one of them need not read the others first.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use super::source::{Token, shipped_files, tokens};

/// From a top-level module to the ones it uses, each with a place where it does.
type Uses = BTreeMap<String, BTreeMap<String, String>>;

#[test]
fn no_circle_joins_top_level_modules() {
    let mut circles = Vec::new();
    for (name, directory) in super::crates() {
        let uses = module_uses(&directory);
        for (module, used) in &uses {
            for (other, place) in used {
                if module < other && reaches(&uses, other, module) {
                    circles.push(format!(
                        "{name}: `{module}` uses `{other}` ({place}), which comes back to it"
                    ));
                } else if other < module && reaches(&uses, other, module) {
                    circles.push(format!("{name}: `{module}` uses `{other}` ({place})"));
                }
            }
        }
    }
    assert!(circles.is_empty(), "{}", circles.join("\n"));
}

/// Whether one module uses another one, over whatever others.
fn reaches(uses: &Uses, from: &str, to: &str) -> bool {
    let mut seen = BTreeSet::from([from]);
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        if module == to {
            return true;
        }
        for used in uses.get(module).into_iter().flat_map(BTreeMap::keys) {
            if seen.insert(used) {
                open.push(used);
            }
        }
    }
    false
}

fn module_uses(directory: &Path) -> Uses {
    let source = directory.join("src");
    let root = fs::read_to_string(source.join("lib.rs")).unwrap();
    let exports = exported_names(&tokens(&root));
    let mut uses = Uses::new();
    for file in shipped_files(&source) {
        let relative = file.strip_prefix(&source).unwrap().with_extension("");
        let path: Vec<&str> = relative.iter().map(|part| part.to_str().unwrap()).collect();
        if ["lib", "main", "bin"].contains(&path[0]) {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        for (name, line) in names_at_root(&tokens(&text), path.len()) {
            let module = exports.get(&name).unwrap_or(&name);
            if module == path[0] || !is_module(&source, module) {
                continue;
            }
            let place = format!("{}:{line}", relative.display());
            let others = uses.entry(path[0].to_owned()).or_default();
            others.entry(module.clone()).or_insert(place);
        }
    }
    uses
}

fn is_module(source: &Path, name: &str) -> bool {
    source.join(format!("{name}.rs")).exists()
}

/// What the root offers under its own path: the name, and the module that it comes from.
fn exported_names(tokens: &[Token]) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at].text != "use" {
            at += 1;
            continue;
        }
        let module = tokens[at + 1].text.clone();
        at += 2;
        while at < tokens.len() && tokens[at].text != ";" {
            let next = tokens.get(at + 1).map_or("", |token| token.text.as_str());
            if tokens[at].is_name() && !["::", "as"].contains(&next) && tokens[at].text != "as" {
                names.insert(tokens[at].text.clone(), module.clone());
            }
            at += 1;
        }
    }
    names
}

/// The first name after each way to the crate's root: `crate::`, or `super::` as often as the file is deep.
fn names_at_root(tokens: &[Token], depth: usize) -> Vec<(String, usize)> {
    let mut names = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let mut climbed = 0;
        while tokens[at].text == "super" && next_is(tokens, at, "::") {
            climbed += 1;
            at += 2;
        }
        let is_at_root = climbed == depth;
        if tokens[at].text == "crate" && next_is(tokens, at, "::") {
            at += 2;
        } else if !is_at_root {
            at += 1;
            continue;
        }
        if tokens[at].text == "{" {
            names.extend(names_in_group(&tokens[at..]));
        } else {
            names.push((tokens[at].text.clone(), tokens[at].line));
        }
        at += 1;
    }
    names
}

fn next_is(tokens: &[Token], at: usize, text: &str) -> bool {
    tokens.get(at + 1).is_some_and(|token| token.text == text)
}

/// The names that begin the members of `{a::B, c::{D, E}}`: `a` and `c`.
fn names_in_group(tokens: &[Token]) -> Vec<(String, usize)> {
    let mut names = Vec::new();
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ if depth == 1
                && token.is_name()
                && ["{", ","].contains(&tokens[at - 1].text.as_str()) =>
            {
                names.push((token.text.clone(), token.line));
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    names
}

#[test]
fn uses_of_other_modules_are_found_in_all_their_forms() {
    let text = "use crate::{a::B, c::{D, E}};\nfn f() { super::super::g::h(); crate::I::new(); super::j(); }\n// crate::k\n";
    let found: Vec<String> = names_at_root(&tokens(text), 2)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(found, ["a", "c", "g", "I"]);
    let exports = exported_names(&tokens("pub use a::{B, c::D as E};\nuse f::G;"));
    let expected = [("B", "a"), ("E", "a"), ("G", "f")];
    let expected = expected.map(|(name, module)| (name.to_owned(), module.to_owned()));
    assert_eq!(exports, BTreeMap::from(expected));
}
