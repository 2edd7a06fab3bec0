//! A server's tools beside their pins: what is withheld before a list is published, what is told and pinned after.

use std::sync::Arc;

use hermes_config::server::PinTools;

use super::Shared;
use crate::{
    catalog::{Catalog, NativeTool},
    pins::{Comparison, Pins},
};

/// Longer differences are cut in the log; `hermes mcp tools NAME --diff` shows all.
const LOGGED: usize = 4_000;

impl Shared {
    fn pins(&self) -> Pins {
        Pins::of(&self.surroundings.home)
    }

    /// Under `pin_tools: block`, finds the tools that are not what was accepted. This comes before a list is published.
    pub(super) fn withhold(&self, catalog: &mut Catalog) {
        catalog.withheld.clear();
        if self.server.load().pin_tools != PinTools::Block {
            return;
        }
        let pins = self.pins();
        match pins.compare(&self.name, &catalog.tools) {
            Ok(comparison) => {
                // At once: what changes a moment after it was first seen has changed, too.
                let new = catalog.tools.iter();
                let new: Vec<_> = new
                    .filter(|tool| comparison.new.contains(&tool.name))
                    .collect();
                if !new.is_empty()
                    && let Err(error) = pins.accept(&self.name, new)
                {
                    tracing::warn!(server = %self.name, %error, "the tools can not be pinned");
                }
                self.tell(&comparison, "a changed tool is withheld");
                let changed = comparison.changed.into_iter();
                catalog.withheld = changed.map(|tool| tool.name).collect();
            }
            Err(error) => {
                tracing::warn!(server = %self.name, %error, "all tools are withheld: the pins can not be read");
                let names = catalog.tools.iter().map(|tool| tool.name.clone());
                catalog.withheld = names.collect();
            }
        }
    }

    /// What can wait until a list is in use: pins tools that are seen for the first time, tells of those that have
    /// changed, and of those whose description is suspicious.
    pub(super) async fn settle(&self, catalog: &Arc<Catalog>) {
        for warning in catalog.suspicious_descriptions() {
            tracing::warn!(server = %self.name, "{}", self.redactor.load().redact(&warning));
        }
        let mode = self.server.load().pin_tools;
        if mode == PinTools::Off || catalog.tools.is_empty() {
            return;
        }
        let (pins, name, tools) = (self.pins(), self.name.clone(), catalog.tools.clone());
        let work = move || {
            let comparison = pins.compare(&name, &tools)?;
            let is_accepted = |tool: &&Arc<NativeTool>| {
                let is_changed = comparison.changed.iter().any(|c| c.name == tool.name);
                comparison.new.contains(&tool.name) || (is_changed && mode == PinTools::Warn)
            };
            let accepted: Vec<_> = tools.iter().filter(is_accepted).collect();
            if !accepted.is_empty() {
                pins.accept(&name, accepted)?;
            }
            Ok::<_, std::io::Error>(comparison)
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(Ok(comparison)) if mode == PinTools::Warn => {
                self.tell(&comparison, "a tool has changed since it was last used");
            }
            // A home that was removed stays so.
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => {}
            Ok(Err(error)) => {
                tracing::warn!(server = %self.name, %error, "the tools can not be pinned");
            }
            Ok(Ok(_)) | Err(_) => {}
        }
    }

    fn tell(&self, comparison: &Comparison, what: &str) {
        for tool in &comparison.changed {
            let difference = tool.difference.to_string();
            let redacted = self.redactor.load().redact(&difference).into_owned();
            let shown: String = redacted.chars().take(LOGGED).collect();
            tracing::warn!(server = %self.name, tool = %tool.name, "{what}:\n{shown}");
        }
    }
}
