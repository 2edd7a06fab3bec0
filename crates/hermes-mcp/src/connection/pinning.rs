//! Compares a server's tools with their pins: withholds before a list is published, logs and pins after.

use std::sync::Arc;

use hermes_config::server::PinTools;

use super::ConnectionContext;
use crate::tools::{catalog::Catalog, pins::PinComparison};

/// Longer differences are cut in the log; `hermes mcp tools NAME --diff` shows all.
const MAX_LOGGED_CHARS: usize = 4_000;

impl ConnectionContext {
    /// Under `pin_tools: block`, finds the tools that are not what was accepted. This comes before a list is published.
    pub(super) fn withhold_changed_tools(&self, catalog: &mut Catalog) {
        catalog.withheld.clear();
        if self.server.load().pin_tools != PinTools::Block {
            return;
        }
        match self.host_context.pins.compare_now(&self.name, catalog) {
            Ok(comparison) => {
                self.log_changed_tools(
                    &comparison,
                    "tool definition changed; the tool is withheld",
                );
                let changed = comparison.changed.into_iter();
                catalog.withheld = changed.map(|tool| tool.name).collect();
            }
            Err(error) => {
                tracing::warn!(server = %self.name, %error, "failed to read the pins; all tools are withheld");
                let names = catalog.tools.iter().map(|tool| tool.name.clone());
                catalog.withheld = names.collect();
            }
        }
    }

    /// What can wait until a list is in use: pins tools that are seen for the first time, tells of those that have
    /// changed, and of those whose description is suspicious.
    pub(super) async fn pin_tools(&self, catalog: &Arc<Catalog>) {
        for warning in catalog.suspicious_descriptions() {
            tracing::warn!(server = %self.name, "{}", self.redactor.load().redact(&warning));
        }
        let mode = self.server.load().pin_tools;
        if mode == PinTools::Off || catalog.tools.is_empty() {
            return;
        }
        let pins = &self.host_context.pins;
        match pins
            .compare_and_pin(self.name.clone(), catalog.clone(), mode)
            .await
        {
            Ok(comparison) if mode == PinTools::Warn => {
                self.log_changed_tools(
                    &comparison,
                    "tool definition changed since it was last used",
                );
            }
            // A home that was removed stays so.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(server = %self.name, %error, "failed to pin tools");
            }
            Ok(_) => {}
        }
    }

    fn log_changed_tools(&self, comparison: &PinComparison, what: &str) {
        for tool in &comparison.changed {
            let difference = tool.difference.to_string();
            let redacted = self.redactor.load().redact(&difference).into_owned();
            let shown: String = redacted.chars().take(MAX_LOGGED_CHARS).collect();
            tracing::warn!(server = %self.name, tool = %tool.name, "{what}:\n{shown}");
        }
    }
}
