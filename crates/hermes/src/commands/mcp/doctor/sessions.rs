//! `doctor --probe`: whether the servers answer. All are asked at the same time.

use hermes_config::{ServerName, Settings};

use super::{
    super::probe::{self, Need, Unanswered},
    Check,
};
use crate::{context::Context, failure::Failure};

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
        settings = probe::with_limit(&settings, name, None)?;
    }
    context.block_on(async {
        let wanted: Vec<&ServerName> = names.iter().collect();
        let host = probe::host(context, &settings, &wanted).await?;
        let mut checks = Vec::new();
        // They connect side by side; only the answers are awaited one by one.
        for name in &names {
            let check = match probe::answer(context, &host, name, Need::Tools).await {
                Ok(answered) => Check::ok(
                    ID,
                    format!(
                        "ready, {} tools, {} era",
                        answered.catalog.tools.len(),
                        answered.session.era.as_str()
                    ),
                ),
                Err(Unanswered { failure, advice }) => {
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
