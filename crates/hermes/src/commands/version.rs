//! `hermes version`: which program this is, and for which home.

use serde_json::json;

use crate::context::Context;

/// The revisions of the protocol that are spoken with servers and clients, the newest first.
const PROTOCOLS: [&str; 5] = [
    "2026-07-28",
    "2025-11-25",
    "2025-06-18",
    "2025-03-26",
    "2024-11-05",
];

pub(super) fn run(context: &Context) {
    let output = context.output;
    let version = env!("CARGO_PKG_VERSION");
    let system = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
    output.line(format!("hermes {version}"));
    output.line(format!("system: {system}"));
    output.line(format!("MCP:    {}", PROTOCOLS.join(", ")));
    output.line(format!("home:   {}", context.home.path().display()));
    output.json(json!({
        "version": version,
        "system": system,
        "protocols": PROTOCOLS,
        "home": context.home.path().to_string_lossy(),
    }));
}
