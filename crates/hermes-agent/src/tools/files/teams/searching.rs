//! Searches the files of groups.

use std::collections::BTreeMap;

use globset::Glob;

use super::{GroupPath, PathRoute, Teams, ToolError};
use crate::tools::{arguments::ToolArguments, tool::ToolOutput};

const DEFAULT_LIMIT: usize = 50;
const MAX_RESULTS: usize = 1000;

pub(super) async fn search_shares(
    teams: &Teams,
    arguments: &ToolArguments,
) -> Result<ToolOutput, ToolError> {
    let pattern = arguments.required_text("pattern")?;
    let path = arguments.required_text("path")?;
    let group_path = match teams.route_path(&path) {
        PathRoute::Share(group_path) => group_path,
        PathRoute::Top | PathRoute::Disk => return list_groups(teams).await,
    };
    let target = arguments.choice("target", &["content", "files"])?;
    let (lines, is_cut) = if target == "files" {
        find_files(teams, &group_path, &pattern).await?
    } else {
        let mode = arguments.choice("output_mode", &["content", "files_only", "count"])?;
        let glob = arguments.text("file_glob")?.filter(|glob| !glob.is_empty());
        search_content(teams, &group_path, &pattern, mode, glob.as_deref()).await?
    };
    let offset = arguments.size("offset", 0, 0..=usize::MAX)?;
    let limit = arguments.size("limit", DEFAULT_LIMIT, 1..=MAX_RESULTS)?;
    let count = lines.len();
    let mut shown: Vec<String> = lines.into_iter().skip(offset).take(limit).collect();
    if count == 0 {
        shown.push("[nothing found]".into());
    } else if count > offset.saturating_add(limit) {
        shown.push(format!(
            "[there are more; go on with offset={}]",
            offset + limit
        ));
    } else if is_cut {
        shown.push("[there may be more than can be shown; search a smaller part]".into());
    }
    Ok(ToolOutput::from_untrusted("search_files", shown.join("\n")))
}

async fn list_groups(teams: &Teams) -> Result<ToolOutput, ToolError> {
    let groups = teams.shares.groups().await?;
    let lines: Vec<String> = groups
        .into_iter()
        .map(|group| format!("teams/{}/ ({})", group.id, group.access))
        .collect();
    Ok(ToolOutput::text(if lines.is_empty() {
        "[this home belongs to no group]".to_owned()
    } else {
        lines.join("\n")
    }))
}

async fn find_files(
    teams: &Teams,
    group_path: &GroupPath,
    pattern: &str,
) -> Result<(Vec<String>, bool), ToolError> {
    let pattern = match pattern {
        "." | "*" => "*".to_owned(),
        glob if glob.contains(['*', '?', '[']) => glob.to_owned(),
        part => format!("*{part}*"),
    };
    let paths = teams.shares.find(group_path, &pattern).await?;
    let shown = |path: String| {
        let group_path = GroupPath {
            path,
            ..group_path.clone()
        };
        group_path.to_string()
    };
    Ok((paths.items.into_iter().map(shown).collect(), paths.is_cut))
}

async fn search_content(
    teams: &Teams,
    group_path: &GroupPath,
    pattern: &str,
    mode: &str,
    file_glob: Option<&str>,
) -> Result<(Vec<String>, bool), ToolError> {
    let glob = file_glob
        .map(|text| {
            Glob::new(text)
                .map(|glob| glob.compile_matcher())
                .map_err(|error| {
                    ToolError::new(format!("`{text}` is not a valid pattern: {error}"))
                })
        })
        .transpose()?;
    let mut matches = teams.shares.grep(group_path, pattern).await?;
    matches.items.retain(|hit| {
        let name = hit.path.rsplit('/').next().unwrap_or_default();
        glob.as_ref()
            .is_none_or(|glob| glob.is_match(&hit.path) || glob.is_match(name))
    });
    let full_path = |path: &str| format!("teams/{}/{path}", group_path.group);
    if mode == "content" {
        let lines = matches.items.iter();
        let lines = lines.map(|hit| format!("{}:{}:{}", full_path(&hit.path), hit.line, hit.text));
        return Ok((lines.collect(), matches.is_cut));
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for hit in &matches.items {
        *counts.entry(&hit.path).or_default() += 1;
    }
    let lines = counts.into_iter().map(|(path, count)| match mode {
        "count" => format!("{}:{count}", full_path(path)),
        _ => full_path(path),
    });
    Ok((lines.collect(), matches.is_cut))
}
