//! `hermes cron tick`: runs what is due, once.

use std::sync::Arc;

use hermes_agent::{
    conversation::{Agent, AgentParts},
    cron::{ClaimedRun, FinishedRun, JobRunner, TickError},
};
use hermes_config::Settings;
use hermes_gateway::delivery::DirectDelivery;
use hermes_mcp::{HostOptions, process::GuardHandle};
use hermes_store::{Access, Store};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::CronJobs;
use crate::{
    context::Context,
    failure::{Failure, FailureKind},
    output::{Tone, printable},
    server_requests::ServerRequests,
};

pub(super) fn run(jobs: &CronJobs<'_>) -> Result<(), Failure> {
    // Where there is no job, nothing is made.
    let ran = if jobs.load()?.jobs.is_empty() {
        Some(Vec::new())
    } else {
        jobs.context.block_on(run_due_jobs(jobs))?
    };
    let output = jobs.context.output;
    match &ran {
        None => output.note("Another process is running the jobs of this home."),
        Some(ran) if ran.is_empty() => output.note("Nothing is due."),
        Some(_) => {}
    }
    let is_busy = ran.is_none();
    let ran = ran.unwrap_or_default();
    for run in &ran {
        print_run(jobs.context, run);
    }
    let failed = ran.iter().filter(|run| run.error.is_some()).count();
    let members = json!({"busy": is_busy, "runs": ran.iter().map(ran_json).collect::<Vec<_>>()});
    if failed == 0 {
        output.json(members);
        return Ok(());
    }
    let message = format!("{failed} of {} runs failed", ran.len());
    output.json_failure(&message, members);
    Err(Failure::new(FailureKind::AlreadyPrinted, message))
}

async fn run_due_jobs(jobs: &CronJobs<'_>) -> Result<Option<Vec<FinishedRun>>, Failure> {
    let context = jobs.context;
    let guard = Arc::new(GuardHandle::new(context.guard_program()?));
    let runner = JobRunner::open(context.home.clone(), "manual")
        .await?
        .with_guard(Arc::clone(&guard));
    let Some(claimed) = runner.claim_due(&jobs.now).await.map_err(tick_failure)? else {
        return Ok(None);
    };
    let settings = context.settings()?;
    // A job must be finished whatever happens now, or it stays claimed.
    let agent = if claimed.iter().any(ClaimedRun::needs_agent) {
        start_agent(context, &settings, &claimed, guard).await
    } else {
        Err("no agent is needed".to_owned())
    };
    let ran = runner
        .run_all(
            claimed,
            agent.as_ref().map_err(String::as_str),
            &settings,
            &DirectDelivery::new(&context.home, Arc::new(settings.clone())),
            &CancellationToken::new(),
        )
        .await;
    if let Ok(agent) = agent {
        if let Some(host) = agent.host() {
            host.shutdown().await;
        }
        agent.store().close().await;
    }
    runner.close().await;
    Ok(Some(ran))
}

/// What the jobs need: the store, and their servers.
async fn start_agent(
    context: &Context,
    settings: &Settings,
    claimed: &[ClaimedRun],
    guard: Arc<GuardHandle>,
) -> Result<Agent, String> {
    let store = Store::open(&context.home, Access::ReadWrite).await;
    let mut parts = AgentParts::new(
        context.home.clone(),
        store.map_err(|error| error.to_string())?,
    );
    parts.environment = std::env::vars_os().collect();
    let mut needed = settings.clone();
    needed.servers.retain(|entry| {
        let name = entry.name.as_str();
        claimed.iter().any(|run| run.needs_server(settings, name))
    });
    parts.guard = Some(guard);
    if !needed.servers.is_empty() {
        let guard = context.guard_program().map_err(|failure| failure.message)?;
        let options = HostOptions {
            request_handler: ServerRequests::without_person(context, settings).handler(),
            reserved_names: Agent::reserved_names(),
            ..HostOptions::new(context.home.clone(), guard)
        };
        parts.host = Some(context.start_host(options, &needed).await);
    }
    Ok(Agent::new(parts, settings.clone()))
}

fn print_run(context: &Context, run: &FinishedRun) {
    let output = context.output;
    let (word, tone) = match &run.error {
        None => ("done", Tone::Good),
        Some(_) => ("failed", Tone::Bad),
    };
    let name = printable(&run.name);
    output.line(format!(
        "{} {name} (`{}`)",
        output.tint(tone, word),
        run.job
    ));
    if let Some(error) = &run.error {
        output.line(format!("  {}", printable(error)));
    }
    if let Some(error) = &run.delivery_error {
        output.line(format!("  {}", printable(error)));
    }
    if let Some(path) = &run.output {
        output.line(format!("  {}", path.display()));
    }
}

fn ran_json(run: &FinishedRun) -> Value {
    json!({
        "job_id": run.job,
        "name": run.name,
        "status": if run.error.is_none() { "ok" } else { "error" },
        "session_id": run.session,
        "output": run.output,
        "text": run.text,
        "error": run.error,
        "delivery_error": run.delivery_error,
        "deliveries": run.deliveries,
    })
}

fn tick_failure(error: TickError) -> Failure {
    match error {
        TickError::Jobs(error) => error.into(),
        TickError::Record(error) => error.into(),
    }
}
