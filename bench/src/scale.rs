//! A Hub of several nodes on PostgreSQL, against one embedded node: `hermes hub serve` as processes on this machine.
//!
//! PostgreSQL writes to the disk before it answers, as the embedded database does.

use std::{fs, path::PathBuf, sync::Arc};

use anyhow::{Context, Result};
use hermes_testkit::{
    TemporaryHome,
    postgres::{PostgresCluster, TestDatabase},
};
use serde_json::json;

use crate::{
    environment::{Effort, Programs},
    hub::{hub_process::HubProcess, load, tenant_name},
    parts::{Part, measure_parts},
    report::Report,
};

mod faults;
mod reads;
mod tenants;
mod writes;

const PARTS: &[Part] = &[
    ("reads", reads::measure),
    ("writes", writes::measure),
    ("failover", faults::measure_failover),
    ("faults", faults::measure),
    ("tenants", tenants::measure),
];

/// Measures one part, or all.
pub(crate) fn measure(
    programs: &Programs,
    effort: Effort,
    only: Option<&str>,
    report: &mut Report,
) -> Result<()> {
    measure_parts("several nodes", PARTS, programs, effort, only, report)
}

/// Nodes of one Hub, with their database and their objects.
struct HubCluster {
    nodes: Vec<HubProcess>,
    directory: TemporaryHome,
    database: TestDatabase,
    token: String,
}

impl HubCluster {
    fn start(programs: &Programs, nodes: usize, more: &[&str]) -> Result<Self> {
        let settings = [
            "fsync = on",
            "full_page_writes = on",
            "shared_buffers = 128MB",
            // As servers have it by themselves; that of the tests is smaller.
            "max_wal_size = 1GB",
        ];
        let cluster = Arc::new(PostgresCluster::start(&settings));
        let directory = TemporaryHome::new();
        let mut hub = Self {
            nodes: Vec::new(),
            database: TestDatabase::create_in(&cluster),
            directory,
            token: String::new(),
        };
        for _ in 0..nodes {
            hub.add_node(programs, more)?;
        }
        Ok(hub)
    }

    fn add_node(&mut self, programs: &Programs, more: &[&str]) -> Result<()> {
        let number = self.nodes.len();
        let path = self.directory.path();
        let data = path.join(format!("node{number}"));
        fs::create_dir_all(&data)?;
        let mut settings = vec![
            format!("database.url={}", self.database.url()),
            format!("objects.url=file://{}", path.join("objects").display()),
            format!("secrets.key_file={}", path.join("secret.key").display()),
            format!("node.id=n{number}"),
        ];
        settings.extend(more.iter().map(|&setting| setting.to_owned()));
        let token = (!self.token.is_empty()).then_some(self.token.as_str());
        let node = HubProcess::start_node(programs, &data, &settings, token)?;
        if self.token.is_empty() {
            self.token.clone_from(&node.token);
        }
        self.nodes.push(node);
        Ok(())
    }

    fn first(&self) -> Result<&HubProcess> {
        self.nodes.first().context("no node")
    }

    fn ports(&self) -> Vec<u16> {
        self.nodes.iter().map(|node| node.port).collect()
    }

    fn stop(self) -> Result<()> {
        for node in self.nodes {
            node.stop()?;
        }
        Ok(())
    }
}

/// Has a Hub make tenants that stay asleep.
fn create_sleeping_tenants(hub: &HubProcess, count: usize) -> Result<()> {
    let requests = (0..count).map(|number| {
        let body =
            json!({"id": tenant_name(number), "agent": {"autoStart": false}, "start": false});
        hub.request("POST", "/v1/tenants", Some(&body))
    });
    load::send_each_once(hub.port, requests.collect(), 16)?;
    Ok(())
}

/// An embedded Hub with such tenants, in a directory that is gone with the first value.
fn start_embedded(programs: &Programs, tenants: usize) -> Result<(TemporaryHome, HubProcess)> {
    let directory = TemporaryHome::new();
    let data: PathBuf = directory.path().join("hub");
    let hub = HubProcess::start(programs, &data)?;
    create_sleeping_tenants(&hub, tenants)?;
    Ok((directory, hub))
}
