//! The Hub: `hermes hub serve` as a process of its own, and a load client in this one, on loopback.
//!
//! Beside it runs a bare rmcp server of the same protocol with one tool that echoes, to see what tokens, limits, the log
//! and the database add.

use std::path::Path;

use anyhow::Result;

use crate::{
    environment::{Effort, Programs},
    parts::{Part, measure_parts},
    report::Report,
};

pub(crate) mod echo;
pub(crate) mod hub_process;
pub(crate) mod lateness;
pub(crate) mod load;
pub(crate) mod mcp;
pub(crate) mod saturate;
pub(crate) mod wire;

mod calls;
mod growth;
mod neighbours;
mod scale;
mod search;
mod start;
mod wake;
mod watching;
mod writers;

use crate::hub::hub_process::HubProcess;

const PARTS: &[Part] = &[
    ("calls", calls::measure),
    ("tenants", scale::measure),
    ("search", search::measure),
    ("writers", writers::measure),
    ("waking", wake::measure),
    ("neighbours", neighbours::measure),
    ("start", start::measure),
    ("growth", growth::measure),
    ("watching", watching::measure),
    ("lateness", lateness::measure),
];

/// Measures one part, or all.
pub(crate) fn measure(
    programs: &Programs,
    effort: Effort,
    only: Option<&str>,
    report: &mut Report,
) -> Result<()> {
    measure_parts("the Hub", PARTS, programs, effort, only, report)
}

/// The name of a tenant by its number.
pub(crate) fn tenant_name(number: usize) -> String {
    format!("tenant-{number:05}")
}

/// A directory in which a Hub has made so many tenants, all of them asleep.
pub(crate) fn create_tenants(programs: &Programs, data: &Path, tenants: usize) -> Result<()> {
    let hub = HubProcess::start(programs, data)?;
    let bodies = (0..tenants).map(|number| {
        serde_json::json!({
            "id": tenant_name(number),
            "displayName": format!("Tenant {number}"),
            "labels": {"division": format!("d{}", number % 10)},
            "agent": {"autoStart": false},
            "start": false,
        })
    });
    let requests = bodies
        .map(|body| hub.request("POST", "/v1/tenants", Some(&body)))
        .collect();
    load::send_each_once(hub.port, requests, 16)?;
    hub.stop()
}
