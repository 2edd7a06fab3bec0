//! The gateway of Python Hermes 0.19 at the same bot API and model, beside ours, as far as it goes.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use hermes_testkit::TemporaryHome;
use serde_json::json;

use super::{
    gateway_process::GatewayProcess,
    latency::home_with_stub,
    stub::{ModelPace, PlatformStub, TOKEN},
};
use crate::{
    environment::{Effort, Programs},
    report::{Quantity, Report, ReportRow, Target},
    samples::Samples,
};

/// The virtual environment that `scripts/equipment install python-hermes` makes.
const ENVIRONMENT: &str = "HERMES_TEST_VENV_HERMES";
const TIMEOUT: Duration = Duration::from_mins(1);
/// Its first turn asks the internet for models.
const FIRST_TIMEOUT: Duration = Duration::from_mins(3);
/// People who write at the same time.
const PEOPLE: u64 = 50;
/// How long they go on.
const RATE_TIME: Duration = Duration::from_secs(15);

/// Where it is installed.
pub(super) fn find_environment() -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os(ENVIRONMENT)?);
    folder.join("bin/hermes").is_file().then_some(folder)
}

pub(super) fn measure(
    programs: &Programs,
    environment: &Path,
    effort: Effort,
    report: &mut Report,
) -> Result<()> {
    let stub = PlatformStub::start(PACE)?;
    let port = hermes_testkit::ReservedPort::reserve()?;
    let home = home_with_stub(&stub, port.number(), &json!({}));
    let gateway = GatewayProcess::start(programs, home.path(), port.number())?;
    let ours = GatewayFigures::measure(&stub, &gateway, effort)?;
    gateway.stop()?;

    let stub = PlatformStub::start(PACE)?;
    let home = python_home(&stub);
    let gateway = GatewayProcess::start_python(environment, home.path(), || stub.is_polled())?;
    let theirs = GatewayFigures::measure(&stub, &gateway, effort)?;
    let rows = [
        ReportRow::times(
            "update in to the model's request, beside 0.19",
            &ours.to_model,
            &theirs.to_model,
            Target::Nothing,
        ),
        ReportRow::times(
            "last token to the final message, beside 0.19",
            &ours.to_message,
            &theirs.to_message,
            Target::Nothing,
        ),
        ReportRow::new(
            "RSS before the first message, beside 0.19",
            Quantity::Memory(ours.idle),
            Some(Quantity::Memory(theirs.idle)),
            Target::Nothing,
        ),
        ReportRow::new(
            format!("RSS after {PEOPLE} conversations, beside 0.19"),
            Quantity::Memory(ours.used),
            Some(Quantity::Memory(theirs.used)),
            Target::Nothing,
        ),
        ReportRow::new(
            format!("messages of {PEOPLE} people, beside 0.19"),
            Quantity::Rate(ours.rate),
            Some(Quantity::Rate(theirs.rate)),
            Target::Nothing,
        ),
    ];
    for row in rows {
        report.add(row);
    }
    Ok(())
}

const PACE: ModelPace = ModelPace {
    pieces: 5,
    pause: Duration::from_millis(20),
};

fn python_home(stub: &PlatformStub) -> TemporaryHome {
    let origin = format!("http://127.0.0.1:{}", stub.port);
    let config = json!({
        "model": {
            "default": "bench", "provider": "custom", "base_url": format!("{origin}/v1"),
            "api_key": "none",
        },
        "telegram": {"extra": {"base_url": format!("{origin}/bot")}},
        "auxiliary": {"title_generation": {"enabled": false}},
    });
    let home = TemporaryHome::with_config(&config.to_string());
    home.write_env(&format!(
        "TELEGRAM_BOT_TOKEN={TOKEN}\nTELEGRAM_ALLOW_ALL_USERS=true\n"
    ));
    home
}

struct GatewayFigures {
    to_model: Samples,
    to_message: Samples,
    /// Memory, in KiB.
    idle: u32,
    used: u32,
    /// Messages answered in a second.
    rate: f64,
}

impl GatewayFigures {
    fn measure(stub: &PlatformStub, gateway: &GatewayProcess, effort: Effort) -> Result<Self> {
        let idle = gateway.memory("VmRSS")?;
        let (mut to_model, mut to_message) = (Samples::default(), Samples::default());
        let count = effort.times(100) as u64;
        for number in 0..=count {
            let limit = if number == 0 { FIRST_TIMEOUT } else { TIMEOUT };
            stub.write(1, number);
            stub.wait_until(limit, "the answer", |stub| stub.times(number).answers > 0)?;
            // The first creates the session.
            if number > 0 {
                let times = stub.times(number);
                let given = times.given.context("not given")?;
                let asked = times.asked.context("not asked")?;
                let last = times.last_piece.context("no piece")?;
                let answered = times.answered.context("no answer")?;
                to_model.push(asked.saturating_duration_since(given));
                to_message.push(answered.saturating_duration_since(last));
            }
        }
        let began = Instant::now();
        let mut next = count + 1;
        while next == count + 1 || began.elapsed() < effort_time(effort) {
            let window = next..next + PEOPLE;
            for number in window.clone() {
                stub.write(100 + number - next, number);
            }
            let is_complete =
                |stub: &PlatformStub| window.clone().all(|n| stub.times(n).answers > 0);
            stub.wait_until(FIRST_TIMEOUT, "a window of answers", is_complete)?;
            next += PEOPLE;
        }
        let answered = u32::try_from(next - count - 1)?;
        Ok(Self {
            to_model,
            to_message,
            idle,
            used: gateway.memory("VmRSS")?,
            rate: f64::from(answered) / began.elapsed().as_secs_f64(),
        })
    }
}

fn effort_time(effort: Effort) -> Duration {
    match effort {
        Effort::Full => RATE_TIME,
        Effort::Quick => Duration::ZERO,
    }
}
