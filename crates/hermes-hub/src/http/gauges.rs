//! Gauges for Prometheus.

mod bots;

use crate::{hub::Hub, storage::state::UsageOwner};

/// Most tenants that get a label of their own with `metrics.per_tenant`.
const MAX_TENANT_LABELS: u32 = 10_000;

/// Name, labels and value.
type Gauge = (&'static str, String, u64);

impl Hub {
    /// All gauges. Those that the database cannot answer are left out.
    pub(crate) async fn collect_gauges(&self) -> Vec<Gauge> {
        let state = self.state();
        let plain = String::new;
        let mut gauges = Vec::new();
        for (phase, count) in self.agents().count_by_state() {
            gauges.push(("agents", format!("state=\"{phase}\""), count));
        }
        let bots = self.ask_for_bots().await;
        gauges.extend(bots::count_bots(&bots));
        if let Ok(pending) = state.count_pending_approvals().await {
            gauges.push(("approvals_pending", plain(), pending));
        }
        let connections = state.connections();
        for (word, count) in [("open", connections.open), ("idle", connections.idle)] {
            let label = format!("state=\"{word}\"");
            gauges.push(("database_connections", label, count));
        }
        if let Ok(disk) = rustix::fs::statvfs(&self.settings().data_dir) {
            let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
            gauges.push(("disk_free_bytes", plain(), bytes(disk.f_bavail)));
            gauges.push(("disk_size_bytes", plain(), bytes(disk.f_blocks)));
        }
        if let Ok(used) = state.total_usage().await {
            for (what, used) in [("homes", used.tenants), ("shares", used.groups)] {
                let label = format!("what=\"{what}\"");
                gauges.push(("used_bytes", label, used.bytes));
            }
        }
        gauges.push((
            "mcp_sessions",
            plain(),
            self.count_mcp_sessions().await as u64,
        ));
        if let Ok(counts) = state.count_runs(None).await {
            for (status, count) in counts {
                gauges.push(("runs", format!("status=\"{status}\""), count));
            }
        }
        if let Ok(counts) = state.count_tenants().await {
            for (status, count) in counts {
                gauges.push(("tenants", format!("state=\"{status}\""), count));
            }
        }
        if self.settings().metrics.per_tenant {
            gauges.extend(self.collect_tenant_gauges().await);
            gauges.extend(bots::last_heard(&bots));
        }
        gauges
    }

    async fn collect_tenant_gauges(&self) -> Vec<Gauge> {
        let Ok(usages) = self.state().usages(MAX_TENANT_LABELS).await else {
            return Vec::new();
        };
        let named = usages.into_iter().filter_map(|(owner, used)| match owner {
            UsageOwner::Tenant(tenant) => Some((
                "tenant_used_bytes",
                format!("tenant=\"{tenant}\""),
                used.bytes,
            )),
            UsageOwner::Group(_) => None,
        });
        named.collect()
    }
}
