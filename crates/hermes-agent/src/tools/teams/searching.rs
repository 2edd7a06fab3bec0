//! Searches the files of groups.

use std::collections::BTreeMap;

use globset::Glob;

use super::{Problem, Spot, Teams, Way};
use crate::{tool::ToolOutput, tools::arguments::Arguments};

const DEFAULT_LIMIT: usize = 50;
const MOST_RESULTS: usize = 1000;

pub(super) async fn search(teams: &Teams, arguments: &Arguments) -> Result<ToolOutput, Problem> {
    let pattern = arguments.required_text("pattern")?;
    let path = arguments.required_text("path")?;
    let spot = match teams.way(&path) {
        Way::To(spot) => spot,
        Way::Top | Way::Disk => return groups(teams).await,
    };
    let target = arguments.choice("target", &["content", "files"])?;
    let (lines, is_cut) = if target == "files" {
        files(teams, &spot, &pattern).await?
    } else {
        let mode = arguments.choice("output_mode", &["content", "files_only", "count"])?;
        let glob = arguments.text("file_glob")?.filter(|glob| !glob.is_empty());
        content(teams, &spot, &pattern, mode, glob.as_deref()).await?
    };
    let offset = arguments.size("offset", 0, 0..=usize::MAX)?;
    let limit = arguments.size("limit", DEFAULT_LIMIT, 1..=MOST_RESULTS)?;
    let found = lines.len();
    let mut shown: Vec<String> = lines.into_iter().skip(offset).take(limit).collect();
    if found == 0 {
        shown.push("[nothing found]".into());
    } else if found > offset.saturating_add(limit) {
        shown.push(format!(
            "[there are more; go on with offset={}]",
            offset + limit
        ));
    } else if is_cut {
        shown.push("[there may be more than can be shown; search a smaller part]".into());
    }
    Ok(ToolOutput::from_outside("search_files", shown.join("\n")))
}

async fn groups(teams: &Teams) -> Result<ToolOutput, Problem> {
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

async fn files(teams: &Teams, spot: &Spot, pattern: &str) -> Result<(Vec<String>, bool), Problem> {
    let pattern = match pattern {
        "." | "*" => "*".to_owned(),
        glob if glob.contains(['*', '?', '[']) => glob.to_owned(),
        part => format!("*{part}*"),
    };
    let found = teams.shares.find(spot, &pattern).await?;
    let shown = |path: String| {
        let spot = Spot {
            path,
            ..spot.clone()
        };
        spot.to_string()
    };
    Ok((found.items.into_iter().map(shown).collect(), found.is_cut))
}

async fn content(
    teams: &Teams,
    spot: &Spot,
    pattern: &str,
    mode: &str,
    file_glob: Option<&str>,
) -> Result<(Vec<String>, bool), Problem> {
    let glob = file_glob
        .map(|text| {
            Glob::new(text)
                .map(|glob| glob.compile_matcher())
                .map_err(|error| Problem::new(format!("`{text}` is not a valid pattern: {error}")))
        })
        .transpose()?;
    let mut found = teams.shares.grep(spot, pattern).await?;
    found.items.retain(|hit| {
        let name = hit.path.rsplit('/').next().unwrap_or_default();
        glob.as_ref()
            .is_none_or(|glob| glob.is_match(&hit.path) || glob.is_match(name))
    });
    let place = |path: &str| format!("teams/{}/{path}", spot.group);
    if mode == "content" {
        let lines = found.items.iter();
        let lines = lines.map(|hit| format!("{}:{}:{}", place(&hit.path), hit.line, hit.text));
        return Ok((lines.collect(), found.is_cut));
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for hit in &found.items {
        *counts.entry(&hit.path).or_default() += 1;
    }
    let lines = counts.into_iter().map(|(path, count)| match mode {
        "count" => format!("{}:{count}", place(path)),
        _ => place(path),
    });
    Ok((lines.collect(), found.is_cut))
}
