//! From the moment an event of a run is stored until somebody who watches the run has it: one watcher, and a hundred.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hermes_testkit::{
    TemporaryHome,
    model::{ModelScript, ModelServer, ScriptedAnswer},
};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::wire::RawConnection;
use crate::{
    environment::{Effort, Programs, RuntimeFlavour},
    hub::hub_process::HubProcess,
    report::{Quantity, Report, ReportRow, Target},
    samples::Samples,
};

const TENANT: &str = "talker";
const MANY: usize = 100;
const SEEN: Target = Target::Below(Quantity::Time(Duration::from_millis(20)));
const AGAINST_ONE: Target = Target::Ratio(2.0);

/// Between two pieces of the answer: more than what is joined into one event.
const PAUSE_MS: u64 = 40;

pub(super) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    let (rounds, pieces) = match effort {
        Effort::Full => (4, 100),
        Effort::Quick => (1, 15),
    };
    let answer =
        ScriptedAnswer::pieces(vec!["word "; pieces]).with(|reply| reply.pause_ms = PAUSE_MS);
    let model = ModelServer::start(ModelScript::echo().rule("talk", answer));
    let config = json!({
        "model": {"default": "m", "provider": "custom", "base_url": model.base_url()},
        "agent": {"api_max_retries": 0},
    });
    let directory = TemporaryHome::new();
    let hub = HubProcess::start(programs, directory.path())?;
    hub.make_tenant(TENANT, &config)?;
    hub.watch_for(&hub.start_run(TENANT, "hi")?, b"run.completed")?;
    let (mut of_one, mut of_many) = (Samples::default(), Samples::default());
    for _ in 0..rounds {
        of_one.extend(&run_watchers(&hub, 1, pieces)?);
        of_many.extend(&run_watchers(&hub, MANY, pieces)?);
    }
    report.add(ReportRow::p99(
        "event of a run, stored to seen, one watcher: p99",
        &of_one,
        None,
        SEEN,
    ));
    report.add(ReportRow::p99(
        format!("event of a run, {MANY} watchers against one: p99"),
        &of_many,
        Some(&of_one),
        AGAINST_ONE,
    ));
    hub.stop()
}

/// A run with so many watchers from its beginning to its end.
fn run_watchers(hub: &HubProcess, watchers: usize, pieces: usize) -> Result<Samples> {
    let run = hub.start_run(TENANT, "talk")?;
    let request = hub.request("GET", &format!("{run}/events"), None);
    let port = hub.port;
    let samples = RuntimeFlavour::OneThread.run(async move {
        let mut tasks = JoinSet::new();
        for _ in 0..watchers {
            let request = request.clone();
            tasks.spawn(async move {
                let mut connection = RawConnection::open(port).await?;
                follow_events(&mut connection, &request).await
            });
        }
        let mut all = Samples::default();
        while let Some(samples) = tasks.join_next().await {
            all.extend(&samples??);
        }
        Ok(all)
    })?;
    let expected = watchers * pieces / 2;
    ensure!(
        samples.count() > expected,
        "{} of more than {expected} events were seen as they came",
        samples.count()
    );
    Ok(samples)
}

/// How old each event was when it came; those that were there before are left out.
async fn follow_events(connection: &mut RawConnection, request: &[u8]) -> Result<Samples> {
    let began = Timestamp::now();
    connection.open_stream(request).await?;
    let mut samples = Samples::default();
    while let Some(event) = connection.next_event().await? {
        let now = Timestamp::now();
        let event: Value = serde_json::from_slice(&event)?;
        let stored: Timestamp = event["time"].as_str().context("no time")?.parse()?;
        if stored > began {
            let age = now.duration_since(stored);
            samples.push(Duration::try_from(age).unwrap_or_default());
        }
    }
    Ok(samples)
}
