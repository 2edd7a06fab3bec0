//! From an order to a tenant that sleeps to the first event of its run, beside the start of such an agent without a Hub.

use std::{
    net::TcpListener,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use hermes_testkit::{
    TemporaryHome,
    model::{ModelScript, ModelServer},
};
use serde_json::json;

use super::wire::RawConnection;
use crate::{
    environment::{Effort, Programs, RuntimeFlavour},
    hub::hub_process::{HubProcess, POLL_INTERVAL, TIMEOUT},
    report::{Report, ReportRow, Target},
    samples::Samples,
};

const TENANT: &str = "sleeper";
const LIMIT: Target = Target::Longer(Duration::from_millis(150));

pub(super) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    let model = ModelServer::start(ModelScript::echo());
    let config = json!({
        "model": {"default": "m", "provider": "custom", "base_url": model.base_url()},
        "agent": {"api_max_retries": 0},
    });
    let (directory, alone) = (TemporaryHome::new(), TemporaryHome::new());
    alone.write_config(&config.to_string());
    let hub = HubProcess::start(programs, directory.path())?;
    hub.make_tenant(TENANT, &config)?;

    let (mut woken, mut started) = (Samples::default(), Samples::default());
    for round in 0..=effort.times(50) {
        let own = measure_gateway_start(programs, alone.path())?;
        let through_hub = measure_wake(&hub)?;
        stop_agent(&hub)?;
        if round > 0 {
            woken.push(through_hub);
            started.push(own);
        }
    }
    report.add(ReportRow::times(
        "waking a tenant to its first event, against the agent's own start",
        &woken,
        &started,
        LIMIT,
    ));
    hub.stop()
}

/// From the order to the first event that the agent sends. Waits for the end of the run: one that is cut off would wake
/// the agent again.
fn measure_wake(hub: &HubProcess) -> Result<Duration> {
    let began = Instant::now();
    let run = hub.start_run(TENANT, "hi")?;
    hub.watch_for(&run, b"data: ")?;
    let taken = began.elapsed();
    hub.watch_for(&run, b"run.completed")?;
    Ok(taken)
}

/// Stops the agent and waits until it is gone.
fn stop_agent(hub: &HubProcess) -> Result<()> {
    let agent = format!("/v1/tenants/{TENANT}/agent");
    hub.call_rest("POST", &format!("{agent}/stop"), None)?;
    hub.wait_for_member(&agent, "state", &["stopped", "sleeping"])
}

/// From the start of a gateway to its first answer.
fn measure_gateway_start(programs: &Programs, home: &Path) -> Result<Duration> {
    let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
    let began = Instant::now();
    let mut child = Command::new(&programs.hermes)
        .args(["gateway", "run", "-q"])
        .env("HERMES_HOME", home)
        .env("API_SERVER_KEY", "a-key-for-the-benchmark-alone")
        .env("API_SERVER_PORT", port.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let taken = loop {
        if is_healthy(port) {
            break Ok(began.elapsed());
        }
        if began.elapsed() > TIMEOUT {
            break Err(());
        }
        thread::sleep(POLL_INTERVAL);
    };
    child.kill()?;
    child.wait()?;
    match taken {
        Ok(taken) => Ok(taken),
        Err(()) => bail!("the gateway did not answer on port {port}"),
    }
}

fn is_healthy(port: u16) -> bool {
    let request = format!("GET /health HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n").into_bytes();
    let healthy = RuntimeFlavour::OneThread.run(async move {
        let mut connection = RawConnection::open(port).await?;
        connection.exchange(&request).await?.check()
    });
    healthy.is_ok()
}
