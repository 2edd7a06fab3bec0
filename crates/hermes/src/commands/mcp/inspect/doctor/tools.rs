//! Whether filters and names do what their author expects, going by what servers offered last.

use hermes_mcp::{
    RegisteredName, RegisteredTool, ToolName,
    connection::manifest::Manifest,
    tools::{filter::ToolFilter, names, names::Naming},
};

use super::Check;
use crate::commands::mcp::inspect::cached_servers::CachedServers;

const LISTS: &str = "lists";
const FILTER: &str = "filter";
const NAME: &str = "name";

pub(super) fn check(remembered: &CachedServers) -> Vec<Check> {
    let mut checks = Vec::new();
    for (server, manifest) in remembered.enabled() {
        let name = &server.name;
        let Some(manifest) = manifest else {
            if remembered.is_uncacheable(name) {
                continue;
            }
            checks.push(
                Check::ok(LISTS, "its tools are not known yet")
                    .about(name)
                    .fix(format!("`hermes mcp test {name}` lists them")),
            );
            continue;
        };
        let filter = ToolFilter::new(&server.tools);
        let offered = tool_names(manifest);
        for pattern in filter.unmatched_patterns(offered.iter()) {
            checks.push(
                Check::warn(FILTER, format!("`{pattern}` matches none of its tools"))
                    .about(name)
                    .fix(format!("`hermes mcp tools {name}` lists the names")),
            );
        }
        if filter.excludes_all() {
            checks.push(
                Check::warn(
                    FILTER,
                    "`tools.include` is an empty list: none of its tools is offered",
                )
                .about(name)
                .fix(format!(
                    "remove the list, or run `hermes mcp tools {name} --all`"
                )),
            );
        }
    }
    checks.extend(odd_names(remembered));
    checks
}

fn tool_names(manifest: &Manifest) -> Vec<ToolName> {
    let names = manifest.tools.iter().map(|tool| tool.name.clone());
    names.map(ToolName::new).collect()
}

/// Names that are not simply server and tool put together.
fn odd_names(remembered: &CachedServers) -> Vec<Check> {
    let mut checks = Vec::new();
    for tool in remembered.registry.tools() {
        let plain = names::registered_name(
            remembered.naming,
            tool.server.as_str(),
            tool.original_name(),
        );
        let reason = if plain != tool.name {
            "another tool has its name"
        } else if is_cut(remembered.naming, tool, &plain) {
            "its name is too long"
        } else {
            continue;
        };
        checks.push(
            Check::warn(
                NAME,
                format!(
                    "`{}` is called `{}`: {reason}",
                    tool.original_name(),
                    tool.name
                ),
            )
            .about(&tool.server)
            .fix("a shorter or different server name changes that"),
        );
    }
    checks
}

fn is_cut(naming: Naming, tool: &RegisteredTool, name: &RegisteredName) -> bool {
    let separators = match naming {
        Naming::Single => "__",
        Naming::Double => "____",
    };
    let parts = [
        "mcp",
        separators,
        tool.server.as_str(),
        tool.original_name(),
    ];
    let whole: usize = parts.iter().map(|part| part.chars().count()).sum();
    whole > name.as_str().len()
}
