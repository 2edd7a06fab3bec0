//! A search in a workspace or a share: by names, by a text, or by a pattern.

use askama::Template;
use serde_json::Value;

use super::{Crumb, FileTree, TreeFacts};
use crate::{
    Problem,
    console::{frame::Frame, pages::render, request::PageRequest},
    storage::files::{FindResult, GrepResult},
};

const MAX_RESULTS: u64 = 200;

#[derive(Template)]
#[template(path = "pages/files/search.html")]
struct SearchPage<'a> {
    page: Frame,
    tree: &'a FileTree,
    crumbs: Vec<Crumb>,
    path: &'a str,
    words: &'a str,
    kind: &'a str,
    found: Vec<MatchedLine>,
    is_cut: bool,
    skipped: u64,
}

struct MatchedLine {
    path: String,
    address: String,
    /// The line and its number; a name has none.
    line: Option<(u64, String)>,
}

pub(super) async fn show(
    request: &PageRequest,
    tree: &FileTree,
    facts: &TreeFacts,
    words: &str,
) -> Result<String, Problem> {
    let path = request.query("path").unwrap_or_default();
    let kind = request.query("in").unwrap_or("name");
    let mut arguments = tree.arguments_with("path", path);
    arguments["max"] = MAX_RESULTS.into();
    let (found, is_cut, skipped) = match kind {
        "text" | "pattern" => {
            let pattern = match kind {
                "text" => regex::escape(words),
                _ => words.to_owned(),
            };
            arguments["pattern"] = pattern.into();
            arguments["ignore_case"] = Value::Bool(kind == "text");
            let result: GrepResult = request.read(tree.operations.grep, arguments).await?;
            let lines = result.matches.into_iter().map(|found| MatchedLine {
                address: tree.address_of(&found.path),
                path: found.path,
                line: Some((found.line, found.text)),
            });
            (lines.collect(), result.truncated, result.files_skipped)
        }
        _ => {
            let is_glob = words.contains(['*', '?', '[', '/']);
            let name = if is_glob {
                words.to_owned()
            } else {
                format!("*{words}*")
            };
            arguments["name"] = name.into();
            let result: FindResult = request.read(tree.operations.find, arguments).await?;
            let paths = result.paths.into_iter().map(|found| MatchedLine {
                address: tree.address_of(&found.path),
                path: found.path,
                line: None,
            });
            (paths.collect(), result.truncated, 0)
        }
    };
    let mut crumbs = tree.crumbs(path, &facts.title);
    crumbs.push(Crumb {
        name: match path {
            "" => facts.title.clone(),
            path => super::last_segment(path).to_owned(),
        },
        address: tree.address_of(path),
    });
    render(&SearchPage {
        page: Frame::new(request, request.texts.get("files.search_title")),
        tree,
        crumbs,
        path,
        words,
        kind,
        found,
        is_cut,
        skipped,
    })
}
