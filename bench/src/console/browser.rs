//! What a browser gets and does: the first page over a slow network, and the log of a run with very many events.

use std::time::Duration;

use anyhow::{Context, Result};
use hermes_testkit::{
    TemporaryHome,
    model::{ModelScript, ModelServer, ScriptedAnswer},
};
use serde_json::{Value, json};

use super::{run_script, size};
use crate::{
    environment::{Effort, Programs},
    hub::{create_tenants, hub_process::HubProcess},
    report::{Quantity, Report, ReportRow, Target},
    samples::Samples,
};

/// 100 KB in KiB.
const FIRST_BYTES: Target = Target::Below(Quantity::Memory(98));
const FIRST_TIME: Target = Target::Below(Quantity::Time(Duration::from_secs(1)));
const HALF_A_CORE: Target = Target::Below(Quantity::Share(50.0));
/// From the last event sent until it is shown.
const BEHIND: Target = Target::Below(Quantity::Time(Duration::from_secs(1)));
const TENANTS: usize = 100;
const EVENTS_A_SECOND: usize = 1_000;

fn address(hub: &HubProcess) -> String {
    format!("http://127.0.0.1:{}", hub.port)
}

fn number(value: &Value, name: &str) -> Result<f64> {
    let number = value[name].as_f64();
    number.with_context(|| format!("no `{name}` in {value}"))
}

pub(super) fn measure_first_page(
    programs: &Programs,
    effort: Effort,
    report: &mut Report,
) -> Result<()> {
    let directory = TemporaryHome::new();
    create_tenants(programs, directory.path(), TENANTS)?;
    let hub = HubProcess::start(programs, directory.path())?;
    let argument =
        json!({"base": address(&hub), "token": hub.token, "repetitions": effort.times(100)});
    let seen = run_script("first_page.mjs", &argument)?;
    let kib = number(&seen, "bytes")? / 1024.0;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a page is small and not negative"
    )]
    let kib = kib.ceil() as u32;
    report.add(ReportRow::new(
        "first page over the wire, with what it loads",
        Quantity::Memory(kib),
        None,
        FIRST_BYTES,
    ));
    let mut samples = Samples::default();
    for time in seen["milliseconds"].as_array().into_iter().flatten() {
        let time = time.as_f64().unwrap_or_default();
        samples.push(Duration::from_secs_f64(time / 1_000.0));
    }
    report.add(ReportRow::time(
        "first page complete on 3G (1.6 Mbit/s, 150 ms), nothing cached",
        &samples,
        FIRST_TIME,
    ));
    hub.stop()
}

pub(super) fn measure_log(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    let seconds = size(effort, "HERMES_BENCH_LOG_SECONDS", 60, 3)?;
    // A run that goes on: its page follows the events.
    let script = ModelScript::echo().rule("hello", ScriptedAnswer::Silence);
    let model = ModelServer::start(script);
    let config = json!({
        "model": {"default": "m", "provider": "custom", "base_url": model.base_url()},
        "agent": {"api_max_retries": 0},
    });
    let directory = TemporaryHome::new();
    let hub = HubProcess::start(programs, directory.path())?;
    hub.make_tenant("talker", &config)?;
    let run = hub.start_run("talker", "hello")?;
    hub.wait_for_member(&run, "status", &["running"])?;
    let argument = json!({
        "base": address(&hub),
        "token": hub.token,
        "page": run.strip_prefix("/v1").context("no page of the run")?,
        "seconds": seconds,
        "eventsPerSecond": EVENTS_A_SECOND,
    });
    let seen = run_script("run_log.mjs", &argument)?;
    report.add(ReportRow::new(
        format!(
            "log of a run, {EVENTS_A_SECOND} events a second for {seconds} s: the browser's processors"
        ),
        Quantity::Share(number(&seen, "cpuPercent")?),
        None,
        HALF_A_CORE,
    ));
    report.add(ReportRow::new(
        "the last of these events, sent to shown",
        Quantity::Time(Duration::from_secs_f64(
            number(&seen, "behindMilliseconds")? / 1_000.0,
        )),
        None,
        BEHIND,
    ));
    hub.stop()
}
