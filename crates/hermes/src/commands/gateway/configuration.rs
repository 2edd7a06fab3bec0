//! The configuration of a running gateway: what happens when the file changes.

use std::sync::Arc;

use hermes_gateway::gateway::Gateway;
use hermes_mcp::{ConfigWatch, Host};

use crate::server_requests::ServerRequests;

/// Applies changes of the file for as long as it is polled.
pub(super) async fn follow_config(
    gateway: &Gateway,
    answers: &Arc<ServerRequests>,
    mut watch: ConfigWatch,
) {
    loop {
        watch.wait_for_change().await;
        let settings = match gateway.load_settings() {
            Ok(settings) => settings,
            Err(error) => {
                tracing::warn!(%error, "invalid configuration, keeping the previous one");
                continue;
            }
        };
        if !gateway.agent().settings().mcp.auto_reload {
            tracing::info!("configuration changed; `hermes mcp reload` applies it");
            continue;
        }
        for warning in &settings.warnings {
            tracing::warn!("{warning}");
        }
        answers.apply_settings(&settings);
        match gateway.reload(settings).await {
            Some(report) if !report.is_noop() => tracing::info!(?report, "configuration reloaded"),
            _ => {
                let host = gateway.agent().host();
                let connecting = host.map(Host::servers_without_tools).unwrap_or_default();
                tracing::info!(
                    ?connecting,
                    "configuration reloaded, no server started or stopped"
                );
            }
        }
    }
}
