//! `hermes chat -Q -q hi` with four servers and a model that answers at once, beside raw rmcp that only discovers them.

use std::{process::Command, time::Duration};

use anyhow::Result;
use hermes_testkit::{
    TemporaryHome,
    model::{ModelScript, ModelServer},
};
use serde_json::json;

use super::model_entry;
use crate::{
    cold_start,
    environment::{ERAS, Effort, Programs},
    raw_discovery::ServerGroup,
    report::{Quantity, Report, ReportRow, Target},
    samples::Samples,
};

const SERVERS: usize = 4;
const TOOLS: usize = 20;
const TIME_LIMIT: Duration = Duration::from_millis(30);
/// 40 MB in KiB.
const MEMORY_LIMIT: Quantity = Quantity::Memory(39_062);

pub(crate) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    let model = ModelServer::start(ModelScript::echo());
    for era in ERAS {
        let group = ServerGroup {
            era,
            servers: SERVERS,
            tools: TOOLS,
        };
        let home = home(programs, group, &model.base_url());
        let ask = || {
            let mut command = Command::new(&programs.hermes);
            command
                .args(["chat", "-Q", "-q", "hi"])
                .env("HERMES_HOME", home.path())
                .current_dir(home.path());
            command
        };
        let (mut ours, mut raw) = (Samples::default(), Samples::default());
        let (mut our_peak, mut raw_peak) = (0, 0);
        // The first round makes the database and lets the host meet the servers.
        for round in 0..=effort.times(100) {
            let (our_time, our_memory) = cold_start::run_measured(&ask())?;
            let (raw_time, raw_memory) = cold_start::run_measured(&group.command(programs))?;
            if round > 0 {
                ours.push(our_time);
                raw.push(raw_time);
                our_peak = our_peak.max(our_memory);
                raw_peak = raw_peak.max(raw_memory);
            }
        }
        let name = format!(
            "`hermes chat -Q -q hi`, {SERVERS} servers, {}",
            era.as_str()
        );
        report.add(ReportRow::times(
            &*name,
            &ours,
            &raw,
            Target::Longer(TIME_LIMIT),
        ));
        report.add(ReportRow::new(
            format!("{name}, peak RSS"),
            Quantity::Memory(our_peak),
            Some(Quantity::Memory(raw_peak)),
            Target::Below(MEMORY_LIMIT),
        ));
    }
    Ok(())
}

fn home(programs: &Programs, group: ServerGroup, base_url: &str) -> TemporaryHome {
    let servers = group.entries(programs);
    let config = json!({"model": model_entry(base_url), "mcp_servers": servers});
    TemporaryHome::with_config(&config.to_string())
}
