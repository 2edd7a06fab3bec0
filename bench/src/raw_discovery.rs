//! A process in which raw rmcp connects servers, lists their tools and stops them: beside whole commands of hermes.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use hermes_mcp::Era;
use hermes_testkit::Behaviour;
use serde_json::{Map, Value, json};

use crate::{
    client::RawClient,
    environment::{ERAS, Programs, RuntimeFlavour, light_server},
};

/// Servers that are alike.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerGroup {
    pub(crate) era: Era,
    pub(crate) servers: usize,
    /// Of each server.
    pub(crate) tools: usize,
}

impl ServerGroup {
    /// Their entries in `config.yaml`.
    pub(crate) fn entries(self, programs: &Programs) -> Map<String, Value> {
        let entry = |number: usize| {
            let mut entry = programs.stdio_entry(&self.server());
            // Servers with the same settings would share what the host remembers of them.
            entry["env"] = json!({"NUMBER": number.to_string()});
            (format!("server_{number}"), entry)
        };
        (0..self.servers).map(entry).collect()
    }

    /// Starts the process.
    pub(crate) fn command(self, programs: &Programs) -> Command {
        let mut command = Command::new(&programs.own);
        let [servers, tools] = [self.servers, self.tools].map(|count| count.to_string());
        command.args(["discover-raw", self.era.as_str(), &servers, &tools]);
        command
    }

    fn server(self) -> Behaviour {
        light_server(self.era).tools([]).generate_tools(self.tools)
    }
}

/// The hidden mode: connects the servers, lists their tools, and stops them.
pub(crate) fn child(era: &str, servers: &str, tools: &str) -> Result<ExitCode> {
    let mut eras = ERAS.into_iter();
    let group = ServerGroup {
        era: eras
            .find(|known| known.as_str() == era)
            .context("unknown era")?,
        servers: servers.parse().context("number of servers")?,
        tools: tools.parse().context("number of tools")?,
    };
    let programs = Programs::find()?;
    RuntimeFlavour::OneThread.run(async move {
        let arguments = vec!["--echo".into(), serde_json::to_string(&group.server())?];
        let connected = (0..group.servers).map(async |_| {
            let service = programs.raw_stdio(group.era, &arguments).await?;
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
