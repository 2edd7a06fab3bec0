//! Watches over the memory of tenants where the kernel does not: each second, the resident size of every tenant's
//! processes is summed up, and a tenant above its limit is ended. A limit on addresses would not do: Node reserves far
//! more than it uses.

use std::{sync::Weak, time::Duration};

use hermes_mcp::process::resident_bytes_of_trees;
use tokio::time::MissedTickBehavior;

use super::{process::Running, process_runtime::Agents};

const PERIOD: Duration = Duration::from_secs(1);

/// Watches until nobody needs the agents any more.
pub(super) async fn watch(agents: Weak<Agents>) {
    let mut seconds = tokio::time::interval(PERIOD);
    // A machine that could not keep up is not helped by looking more often.
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        seconds.tick().await;
        let Some(agents) = agents.upgrade() else {
            return;
        };
        let watched: Vec<(Running, u64)> = agents
            .running()
            .into_iter()
            .filter_map(|running| running.memory_limit.map(|limit| (running, limit)))
            .collect();
        drop(agents);
        if watched.is_empty() {
            continue;
        }
        let roots: Vec<u32> = watched.iter().map(|(running, _)| running.root).collect();
        let sizes = tokio::task::spawn_blocking(move || resident_bytes_of_trees(&roots)).await;
        for ((running, limit), size) in watched.iter().zip(sizes.unwrap_or_default()) {
            if size > *limit {
                running.kill(format!(
                    "its processes used {} MiB of memory; the limit is {} MiB",
                    size >> 20,
                    limit >> 20
                ));
            }
        }
    }
}
