//! Whether servers look like an attack: their entries, what their tools say, and whether these are what was accepted.

use std::sync::Arc;

use hermes_config::{Home, PinTools, Server, ServerEntryError, Settings};
use hermes_mcp::{
    connection::manifest::Manifest,
    tools::{
        catalog::{Catalog, NativeTool},
        pins::Pins,
    },
};

use super::Check;
use crate::commands::mcp::inspect::cached_servers::CachedServers;

const SUSPICIOUS: &str = "suspicious";
const DESCRIPTION: &str = "words";
const PIN: &str = "pin";

pub(super) fn check_entries(settings: &Settings) -> Vec<Check> {
    let refused = settings.servers.iter().filter_map(|entry| {
        let Err(problem @ ServerEntryError::Suspicious(_)) = &entry.server else {
            return None;
        };
        let check = Check::fail(SUSPICIOUS, problem.to_string());
        Some(check.split_advice().about(&entry.name))
    });
    let refused: Vec<Check> = refused.collect();
    if refused.is_empty() {
        return vec![Check::ok(SUSPICIOUS, "no entry looks like an attack")];
    }
    refused
}

/// Goes by what servers offered last.
pub(super) fn check_tools(home: &Home, remembered: &CachedServers) -> Vec<Check> {
    let known = remembered.enabled();
    known
        .filter_map(|(server, manifest)| Some(check_server(home, server, manifest?)))
        .flatten()
        .collect()
}

fn check_server(home: &Home, server: &Server, manifest: &Manifest) -> Vec<Check> {
    let name = &server.name;
    let tools = manifest.tools.iter().cloned();
    let catalog = Catalog {
        tools: tools.map(NativeTool::new).map(Arc::new).collect(),
        ..Catalog::default()
    };
    let mut checks: Vec<Check> = catalog
        .suspicious_descriptions()
        .map(|text| Check::warn(DESCRIPTION, text).split_advice().about(name))
        .collect();
    if server.pin_tools == PinTools::Off {
        return checks;
    }
    match Pins::for_home(home).compare(name, &catalog.tools) {
        Ok(comparison) => {
            let changed = comparison.changed.iter().map(|tool| {
                let message = format!("`{}` has changed since it was accepted", tool.name);
                Check::warn(PIN, message).about(name).fix(format!(
                    "`hermes mcp tools {name} --diff` shows the difference, `--approve` accepts it"
                ))
            });
            checks.extend(changed);
        }
        Err(error) => checks.push(
            Check::fail(PIN, error.to_string())
                .fix("fix the file, or remove it: all tools are then new"),
        ),
    }
    checks
}
