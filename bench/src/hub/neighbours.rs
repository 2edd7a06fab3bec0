//! One tenant that takes all it is given, and what others notice of it: cheap reads and short runs beside it, against the
//! same while it sleeps. Quiet and loud times take turns.

use std::{
    fs,
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use hermes_testkit::{
    TemporaryHome,
    model::{ModelScript, ModelServer, ScriptedAnswer},
};
use serde_json::json;

use super::{
    load,
    load::LoadClient,
    saturate::{READY_FILE, SaturatedResource},
};
use crate::{
    environment::{Effort, Programs},
    hub::hub_process::{HubProcess, POLL_INTERVAL, TIMEOUT},
    report::{Report, ReportRow, Target},
    report_progress,
    samples::Samples,
};

const GREEDY: &str = "greedy";
const OTHER: &str = "other";
/// Others may wait so much longer.
const LIMIT: f64 = 1.5;

const MEMORY: u64 = 512 << 20;
const PIDS: u64 = 128;
/// What the tenant's agent itself and the Hub's count of it leave.
const MEMORY_HEADROOM: u64 = 96 << 20;

/// Who reads: so many, each so often. That is far from what the Hub can do, or its own queue would be measured.
const READERS: usize = 8;
const READ_INTERVAL: Duration = Duration::from_millis(10);

/// A limit, what goes up to it, and the tenant's condition that tells whether it is in force here.
const LIMITS: [(&str, SaturatedResource, &str); 3] = [
    (
        "memory",
        SaturatedResource::Memory {
            bytes: MEMORY - MEMORY_HEADROOM,
        },
        "MemoryLimited",
    ),
    ("processes", SaturatedResource::Processes, "PidsLimited"),
    ("processor", SaturatedResource::Processor, "CpuLimited"),
];

/// What others saw: in one round all times, over all rounds the p99 of each. Of these the median counts, because
/// a moment in which the whole machine stood still decides over a p99 of all times.
#[derive(Default)]
struct NeighbourSamples {
    reads: Samples,
    runs: Samples,
}

pub(super) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    let (rounds, time) = match effort {
        Effort::Full => (5, Duration::from_secs(4)),
        Effort::Quick => (1, Duration::from_millis(500)),
    };
    let script = LIMITS
        .iter()
        .fold(ModelScript::echo(), |script, (name, greed, _)| {
            let command = format!("exec {} {}", programs.own.display(), greed.arguments());
            let call = json!({"command": command, "timeout": 600});
            script.rule(
                &saturate_prompt(name),
                ScriptedAnswer::call("terminal", &call),
            )
        });
    let model = ModelServer::start(script);
    let config = json!({
        "model": {"default": "m", "provider": "custom", "base_url": model.base_url()},
        "agent": {"api_max_retries": 0},
        "approvals": {"mode": "off"},
    });
    let directory = TemporaryHome::new();
    let programs_lie_in = programs.own.parent().unwrap_or(Path::new("/"));
    let settings = [
        format!("isolation.memory={MEMORY}"),
        format!("isolation.pids={PIDS}"),
        format!("isolation.read_paths={}", programs_lie_in.display()),
    ];
    let hub = HubProcess::start_with(programs, directory.path(), &settings)?;
    for tenant in [GREEDY, OTHER] {
        hub.make_tenant(tenant, &config)?;
        // Both are awake from here on, and what they are confined by is known.
        hub.watch_for(&hub.start_run(tenant, "hi")?, b"run.completed")?;
    }
    for (name, _, condition) in LIMITS {
        let (is_in_force, reason) = limit_condition(&hub, condition)?;
        if condition == "PidsLimited" && !is_in_force {
            report_progress(&format!("no limit of {name} here: {reason}"))?;
            continue;
        }
        let (mut quiet, mut loud) = (NeighbourSamples::default(), NeighbourSamples::default());
        for round in 0..=rounds {
            let alone = measure_neighbours(&hub, effort, time)?;
            let greedy = start_saturation(&hub, name)?;
            let beside = measure_neighbours(&hub, effort, time)?;
            stop_saturation(&hub, &greedy)?;
            // The first round fills caches.
            if round > 0 {
                quiet.add(&alone);
                loud.add(&beside);
            }
        }
        let target = if is_in_force {
            Target::Ratio(LIMIT)
        } else {
            Target::Nothing
        };
        let words = format!("beside a tenant at its limit of {name} ({reason})");
        for (what, ours, baseline) in [
            ("cheap read", &loud.reads, &quiet.reads),
            ("short run", &loud.runs, &quiet.runs),
        ] {
            let measure = format!("{what} {words}: p99");
            report.add(ReportRow::times(measure, ours, baseline, target));
        }
    }
    hub.stop()
}

impl NeighbourSamples {
    /// Takes in what was seen in a round.
    fn add(&mut self, round: &Self) {
        self.reads.push(round.reads.p99());
        self.runs.push(round.runs.p99());
    }
}

/// What the model is told to have the terminal take something.
fn saturate_prompt(name: &str) -> String {
    format!("take all {name}.")
}

/// Whether a limit of the tenant is in force on this machine, and by what.
fn limit_condition(hub: &HubProcess, condition: &str) -> Result<(bool, String)> {
    let tenant = hub.call_rest("GET", &format!("/v1/tenants/{GREEDY}"), None)?;
    let conditions = tenant["conditions"].as_array().context("no conditions")?;
    let found = conditions.iter().find(|found| found["type"] == condition);
    let found = found.with_context(|| format!("no condition {condition}: {tenant}"))?;
    let reason = found["reason"].as_str().unwrap_or_default().to_owned();
    Ok((found["status"] == "True", reason))
}

/// Has the greedy tenant take all it can get; returns when it has it.
fn start_saturation(hub: &HubProcess, name: &str) -> Result<String> {
    let ready = hub.home(GREEDY).join("workspace").join(READY_FILE);
    let _ = fs::remove_file(&ready);
    let run = hub.start_run(GREEDY, &saturate_prompt(name))?;
    let end = Instant::now() + TIMEOUT;
    while !ready.exists() {
        if Instant::now() > end {
            let run = hub.call_rest("GET", &run, None)?;
            anyhow::bail!("the tenant does not get to its limit of {name}: {run}");
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(run)
}

/// Ends what the greedy tenant does. It must have gone on until now, or nothing was measured.
fn stop_saturation(hub: &HubProcess, run: &str) -> Result<()> {
    let shown = hub.call_rest("GET", run, None)?;
    ensure!(shown["status"] == "running", "it was over before: {shown}");
    hub.call_rest("POST", &format!("{run}/stop"), None)?;
    hub.wait_for_member(run, "status", &["cancelled", "completed", "failed"])
}

/// Reads, and runs of another tenant.
fn measure_neighbours(
    hub: &HubProcess,
    effort: Effort,
    time: Duration,
) -> Result<NeighbourSamples> {
    let read = hub.request("GET", &format!("/v1/tenants/{OTHER}"), None);
    let requests: Arc<[Vec<u8>]> = [read].into();
    let clients = (0..READERS)
        .map(|_| LoadClient {
            requests: Arc::clone(&requests),
            first: 0,
        })
        .collect();
    let reads = load::run_paced_load(hub.port, clients, time, READ_INTERVAL)?.latencies;
    let mut runs = Samples::default();
    for _ in 0..effort.times(30) {
        let began = Instant::now();
        hub.watch_for(&hub.start_run(OTHER, "hi")?, b"run.completed")?;
        runs.push(began.elapsed());
    }
    Ok(NeighbourSamples { reads, runs })
}
