//! The roots that a server may see.

#![expect(deprecated, reason = "roots are still asked for by older servers")]

use std::path::{Path, PathBuf};

use hermes_config::server::RootsPolicy;
use hermes_mcp::protocol::Root;
use url::Url;

/// The roots of a server. A directory that cannot be written as a URL is omitted.
pub(super) fn list_roots(policy: &RootsPolicy, directory: Option<&Path>) -> Vec<Root> {
    match policy {
        RootsPolicy::Auto => directory.and_then(directory_root).into_iter().collect(),
        RootsPolicy::Directories(texts) => texts
            .iter()
            .filter_map(|text| configured_root(text))
            .collect(),
    }
}

fn configured_root(text: &str) -> Option<Root> {
    if text.starts_with("file://") {
        return Some(Root::new(text));
    }
    let path = match text.strip_prefix("~/") {
        Some(rest) => std::env::home_dir()?.join(rest),
        None if text == "~" => std::env::home_dir()?,
        None => PathBuf::from(text),
    };
    directory_root(&std::path::absolute(path).ok()?)
}

fn directory_root(path: &Path) -> Option<Root> {
    let root = Root::new(Url::from_file_path(path).ok()?.to_string());
    Some(match path.file_name() {
        Some(name) => root.with_name(name.to_string_lossy()),
        None => root,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(policy: &RootsPolicy, directory: Option<&str>) -> Vec<(String, Option<String>)> {
        let roots = list_roots(policy, directory.map(Path::new));
        roots
            .into_iter()
            .map(|root| (root.uri, root.name))
            .collect()
    }

    #[test]
    fn auto_is_the_working_directory_where_there_is_one() {
        let expected = (
            "file:///srv/my%20project".to_owned(),
            Some("my project".to_owned()),
        );
        assert_eq!(
            shown(&RootsPolicy::Auto, Some("/srv/my project")),
            [expected]
        );
        assert_eq!(shown(&RootsPolicy::Auto, None), []);
    }

    #[test]
    fn a_list_is_told_as_it_is_whatever_the_working_directory() {
        let list = ["/srv/a", "file:///srv/b", "/"].map(str::to_owned).to_vec();
        let uris: Vec<String> = shown(&RootsPolicy::Directories(list), Some("/tmp"))
            .into_iter()
            .map(|(uri, _)| uri)
            .collect();
        assert_eq!(uris, ["file:///srv/a", "file:///srv/b", "file:///"]);
        assert_eq!(
            shown(&RootsPolicy::Directories(Vec::new()), Some("/tmp")),
            []
        );
    }
}
