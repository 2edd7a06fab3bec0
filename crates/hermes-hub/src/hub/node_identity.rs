//! Who a node's id belongs to. Two processes with one id would share their leases and their audit chain, so the second
//! one does not start: of two that work and one that is refused, the one that works is the better to keep. A process that
//! stood still, and whose id another one has taken meanwhile, stops.

use std::{fs, path::Path, time::Duration};

use super::{Hub, StartError, lifecycle};
use crate::storage::{
    data_dir::DataDir,
    state::{State, StateError},
};

const HOST_NAME: &str = "/proc/sys/kernel/hostname";

fn owner_key(node: &str) -> String {
    format!("owner:{node}")
}

/// The data directory and the machine: of those, a lock allows one process.
fn identify(data_dir: &Path) -> Result<Vec<u8>, StartError> {
    let id = DataDir::create(data_dir).and_then(|directory| directory.node_id());
    let id = id.map_err(|error| StartError::Setting {
        key: "data_dir",
        reason: error.to_string(),
    })?;
    let host = fs::read_to_string(HOST_NAME).unwrap_or_default();
    Ok(format!("{id}@{}", host.trim()).into_bytes())
}

/// Takes a node's id, unless another process works under it. One that has not been seen for the time of a lease does not.
pub(super) async fn claim_node_id(
    state: &dyn State,
    node: &str,
    data_dir: &Path,
    lease: Duration,
) -> Result<(), StartError> {
    if !state.has_other_nodes() {
        return Ok(());
    }
    let own = identify(data_dir)?;
    let owner = state.meta(&owner_key(node)).await?;
    if owner.is_some_and(|owner| owner != own) && lifecycle::is_running(state, node).await? {
        let nodes = state.nodes().await?;
        let seen = nodes.into_iter().find(|known| known.id == node);
        if let Some(seen) = seen.filter(|seen| seen.unseen_for < lease) {
            let seconds = seen.unseen_for.as_secs();
            return Err(StartError::Setting {
                key: "node.id",
                reason: format!(
                    "the node `{node}` works with another data directory, and was seen {seconds} s ago; give each node \
                     its own `node.id`, or start again {} s after the other one has ended",
                    lease.as_secs()
                ),
            });
        }
    }
    state.set_meta(&owner_key(node), &own).await?;
    Ok(())
}

impl Hub {
    /// Whether another process has taken this node's id.
    pub(super) async fn is_replaced(&self) -> Result<bool, StateError> {
        let owner = self.state().meta(&owner_key(self.node())).await?;
        let own = identify(&self.settings().data_dir);
        Ok(owner.is_some_and(|owner| own.is_ok_and(|own| own != owner)))
    }

    /// Returns when another process has taken this node's id: this one must stop.
    pub async fn wait_until_replaced(&self) {
        self.0.lifecycle.replaced.cancelled().await;
    }
}
