//! Enforces limits of tenants where the kernel does not. Each second all processes of every tenant are measured: a
//! tenant above its memory limit is killed, and sessions that its processes opened get the same niceness.
//!
//! A limit on addresses would not do for memory: Node reserves far more than it uses.

use std::{sync::Weak, time::Duration};

use hermes_hub::tenants::runtime::{AgentExit, ExitCause};
use hermes_mcp::process::trees;
use tokio::time::MissedTickBehavior;

use super::{
    process::{ResourceBounds, RunningAgent},
    process_runtime::AgentTable,
};
use crate::embedded_hub::runtime::launcher;

const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Watches until nobody needs the agents any more.
pub(super) async fn watch_tenants(agents: Weak<AgentTable>) {
    let mut seconds = tokio::time::interval(WATCH_INTERVAL);
    // A machine that could not keep up is not helped by looking more often.
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        seconds.tick().await;
        let Some(agents) = agents.upgrade() else {
            return;
        };
        let watched: Vec<(RunningAgent, ResourceBounds)> = agents
            .running()
            .into_iter()
            .filter_map(|running| running.bounds.map(|bounds| (running, bounds)))
            .collect();
        drop(agents);
        if watched.is_empty() {
            continue;
        }
        let tenants: Vec<(u32, i32)> = watched
            .iter()
            .map(|(running, bounds)| (running.root, bounds.niceness))
            .collect();
        let looked = tokio::task::spawn_blocking(move || measure_tenants(&tenants)).await;
        let sizes = looked.unwrap_or_else(|error| {
            tracing::error!(%error, "failed to measure the memory of tenants");
            Vec::new()
        });
        for ((running, bounds), size) in watched.iter().zip(sizes) {
            if size > bounds.memory {
                running.kill(AgentExit {
                    cause: ExitCause::MemoryLimit,
                    details: format!(
                        "its processes used {} MiB of memory; the limit is {} MiB",
                        size >> 20,
                        bounds.memory >> 20
                    ),
                });
            }
        }
    }
}

/// Sets the niceness of every session of these tenants; returns the resident bytes of each tenant.
fn measure_tenants(tenants: &[(u32, i32)]) -> Vec<u64> {
    let roots: Vec<u32> = tenants.iter().map(|(root, _)| *root).collect();
    let trees = trees(&roots);
    for (tree, (_, niceness)) in trees.iter().zip(tenants) {
        for pid in tree.sessions.values() {
            launcher::set_session_niceness(*pid, *niceness);
        }
    }
    trees.iter().map(|tree| tree.resident_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_still_in_our_own_session_does_not_make_it_stand_back() {
        let group = || std::fs::read_to_string("/proc/self/autogroup").unwrap_or_default();
        let before = group();
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        measure_tenants(&[(child.id(), 19)]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(group(), before);
    }
}
