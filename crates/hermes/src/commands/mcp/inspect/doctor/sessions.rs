//! `doctor --probe`: whether the servers answer. All are asked at the same time.

use hermes_config::{ServerName, Settings};

use super::Check;
use crate::{
    commands::mcp::requests::{
        probe,
        probe::{ListNeed, ProbeFailure},
    },
    context::Context,
    failure::Failure,
};

const ID: &str = "session";

pub(super) fn probe(context: &Context, settings: &Settings) -> Result<Vec<Check>, Failure> {
    let names: Vec<ServerName> = settings
        .servers
        .iter()
        .filter(|entry| entry.server.as_ref().is_ok_and(|server| server.enabled))
        .map(|entry| entry.name.clone())
        .collect();
    let mut settings = settings.clone();
    for name in &names {
        settings = probe::with_connect_timeout(&settings, name, None)?;
    }
    context.block_on(async {
        let wanted: Vec<&ServerName> = names.iter().collect();
        let host = probe::start_host(context, &settings, &wanted).await?;
        let mut checks = Vec::new();
        // They connect side by side; only the answers are awaited one by one.
        for name in &names {
            let check = match probe::wait_for_server(context, &host, name, ListNeed::Tools).await {
                Ok(answered) => Check::ok(
                    ID,
                    format!(
                        "ready, {} tools, {} era",
                        answered.catalog.tools.len(),
                        answered.session.era.as_str()
                    ),
                ),
                Err(ProbeFailure { failure, advice }) => {
                    let check = Check::fail(ID, failure.message);
                    match advice {
                        Some(advice) => check.fix(advice.to_string()),
                        None => check,
                    }
                }
            };
            checks.push(check.about(name));
        }
        host.shutdown().await;
        Ok(checks)
    })
}
