//! Five hundred conversations at once, with a model that takes five seconds for an answer.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use serde_json::json;

use super::{
    bare::BareServer,
    gateway_process::GatewayProcess,
    latency::home_with_stub,
    stub::{ModelPace, PlatformStub},
};
use crate::{
    environment::{Effort, Programs},
    report::{Quantity, Report, ReportRow, Target},
    samples::Samples,
};

/// 150 MB in KiB.
const MORE_MEMORY: Target = Target::Below(Quantity::Memory(146_484));
const HEALTH: Target = Target::Longer(Duration::from_millis(5));
const TIMEOUT: Duration = Duration::from_mins(2);
const HEALTH_INTERVAL: Duration = Duration::from_millis(20);

pub(super) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    let pace = ModelPace {
        pieces: 50,
        pause: Duration::from_millis(100),
    };
    let count = match effort {
        Effort::Full => 500_u32,
        Effort::Quick => 20,
    };
    let stub = PlatformStub::start(pace)?;
    let port = hermes_testkit::ReservedPort::reserve()?;
    let home = home_with_stub(&stub, port.number(), &json!({}));
    let gateway = GatewayProcess::start(programs, home.path(), port.number())?;
    stub.write(1, 1_000_000);
    stub.wait_until(TIMEOUT, "the first answer", |stub| stub.answered() == 1)?;
    let idle = gateway.memory("VmRSS")?;
    for number in 0..u64::from(count) {
        stub.write(1_000 + number, number);
    }
    let bare = BareServer::start()?;
    let (mut health, mut least, mut most) = (Samples::default(), Samples::default(), idle);
    let deadline = Instant::now() + TIMEOUT;
    while stub.answered() <= count as usize && Instant::now() < deadline {
        health.push(gateway.health()?);
        least.push(bare.ask()?);
        most = most.max(gateway.memory("VmRSS")?);
        thread::sleep(HEALTH_INTERVAL);
    }
    let once = (0..u64::from(count)).filter(|number| stub.times(*number).answers == 1);
    let once = u32::try_from(once.count()).unwrap_or_default();
    ensure!(health.count() > 0, "the health was never asked");
    report.add(ReportRow::new(
        format!("{count} conversations at once: answered once"),
        Quantity::Count(once),
        Some(Quantity::Count(count)),
        Target::Equal,
    ));
    report.add(ReportRow::new(
        "the same, memory beyond idle",
        Quantity::Memory(most.saturating_sub(idle)),
        None,
        MORE_MEMORY,
    ));
    report.add(ReportRow::p99(
        "the same, /health: p99",
        &health,
        Some(&least),
        HEALTH,
    ));
    gateway.stop()
}
