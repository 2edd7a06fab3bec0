//! What servers have besides tools, as they last listed it: for completion, slash commands and mentions.

use std::{sync::Arc, time::Duration};

use hermes_config::ServerName;
use rmcp::model::Prompt;

use super::Host;
use crate::{
    connection::link::{Link, LinkStatus},
    tools::{catalog::Catalog, names::Naming},
};

impl Host {
    /// How names of tools and commands are put together.
    pub fn naming(&self) -> Naming {
        **self.state.naming.load()
    }

    /// Every server that has a connection, in the order of the configuration.
    pub fn servers(&self) -> Vec<ServerName> {
        let owners = self.handles();
        owners.iter().map(|owner| owner.name.clone()).collect()
    }

    /// The prompts of all servers, without those of servers that say `tools.prompts: false`.
    pub fn offered_prompts(&self) -> Vec<(ServerName, Prompt)> {
        let mut offered = Vec::new();
        for owner in self.handles() {
            if !owner.settings().tools.prompts {
                continue;
            }
            if let Some(catalog) = owner.link.borrow().offered_catalog() {
                let prompts = catalog.prompts.iter().cloned();
                offered.extend(prompts.map(|prompt| (owner.name.clone(), prompt)));
            }
        }
        offered
    }

    /// The lists of every server that is there, with its resources and templates.
    pub fn offered_catalogs(&self) -> Vec<(ServerName, Arc<Catalog>)> {
        let catalog = |link: &Link| link.offered_catalog().cloned();
        let owners = self.handles().into_iter();
        owners
            .filter_map(|owner| Some((owner.name.clone(), catalog(&owner.link.borrow())?)))
            .collect()
    }

    /// Waits until each server has listed all it has or has failed once, or the time is up.
    pub async fn wait_until_listed(&self, limit: Duration) {
        let is_done = |link: &Link| {
            let is_whole = link
                .catalog
                .as_ref()
                .is_some_and(|catalog| catalog.is_complete);
            match link.status {
                LinkStatus::Connecting => link.attempts_ended > 0,
                LinkStatus::Ready => is_whole,
                _ => true,
            }
        };
        let owners = self.handles();
        let waits = owners.iter().map(async |owner| {
            let mut link = owner.link.clone();
            let _ = link.wait_for(is_done).await;
        });
        let _ = tokio::time::timeout(limit, futures::future::join_all(waits)).await;
    }
}
