//! `hermes chat -Q -q hi` with four servers and a model that answers at once, beside raw rmcp that only discovers them.

use std::{
    process::{Command, ExitCode},
    time::Duration,
};

use anyhow::{Context, Result};
use hermes_mcp::Era;
use hermes_testkit::{
    Behaviour, TemporaryHome,
    model::{ModelScript, ModelServer},
};
use serde_json::{Map, Value, json};

use super::model_entry;
use crate::{
    client::RawClient,
    cold_start,
    environment::{ERAS, Effort, Programs, RuntimeFlavour, light_server},
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
        let home = home(programs, era, &model.base_url());
        let ask = || {
            let mut command = Command::new(&programs.hermes);
            command
                .args(["chat", "-Q", "-q", "hi"])
                .env("HERMES_HOME", home.path())
                .current_dir(home.path());
            command
        };
        let discover = || {
            let mut command = Command::new(&programs.own);
            command.args(["discover-raw", era.as_str()]);
            command
        };
        let (mut ours, mut raw) = (Samples::default(), Samples::default());
        let (mut our_peak, mut raw_peak) = (0, 0);
        // The first round makes the database and lets the host meet the servers.
        for round in 0..=effort.times(100) {
            let (our_time, our_memory) = cold_start::run_measured(&ask())?;
            let (raw_time, raw_memory) = cold_start::run_measured(&discover())?;
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

fn home(programs: &Programs, era: Era, base_url: &str) -> TemporaryHome {
    let servers: Map<String, Value> = (0..SERVERS)
        .map(|number| {
            let mut entry = programs.stdio_entry(&server(era));
            // Servers with the same settings would share what the host remembers of them.
            entry["env"] = json!({"NUMBER": number.to_string()});
            (format!("server_{number}"), entry)
        })
        .collect();
    let config = json!({"model": model_entry(base_url), "mcp_servers": servers});
    TemporaryHome::with_config(&config.to_string())
}

fn server(era: Era) -> Behaviour {
    light_server(era).tools([]).generate_tools(TOOLS)
}

/// The hidden mode of the other side: connects the servers, lists their tools, and stops them.
pub(crate) fn child(era: &str) -> Result<ExitCode> {
    let mut eras = ERAS.into_iter();
    let era = eras
        .find(|known| known.as_str() == era)
        .context("unknown era")?;
    let programs = Programs::find()?;
    RuntimeFlavour::OneThread.run(async move {
        let arguments = vec!["--echo".into(), serde_json::to_string(&server(era))?];
        let connected = (0..SERVERS).map(async |_| {
            let service = programs.raw_stdio(era, &arguments).await?;
            service.list_all_tools().await?;
            anyhow::Ok(service)
        });
        let connected = futures::future::try_join_all(connected).await?;
        let ended = connected.into_iter().map(RawClient::cancel);
        futures::future::try_join_all(ended).await?;
        Ok(())
    })?;
    Ok(ExitCode::SUCCESS)
}
