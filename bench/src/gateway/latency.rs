//! From the update to the model's request, and from the last piece of the model to the final message.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hermes_testkit::TemporaryHome;
use serde_json::{Value, json};

use super::{
    bare::BareServer,
    gateway_process::GatewayProcess,
    stub::{ModelPace, PlatformStub, TOKEN},
};
use crate::{
    environment::{Effort, Programs},
    report::{Report, ReportRow, Target},
    samples::Samples,
};

const TO_MODEL: Target = Target::Longer(Duration::from_millis(5));
const TO_MESSAGE: Target = Target::Longer(Duration::from_millis(10));
const TIMEOUT: Duration = Duration::from_secs(30);
/// Sessions in which messages take turns.
const USERS: u64 = 20;

/// The key of the gateway's API.
pub(super) const API_KEY: &str = "0123456789abcdef0123";

/// A home whose Telegram and whose model are the stub.
pub(super) fn home_with_stub(stub: &PlatformStub, api: u16, more: &Value) -> TemporaryHome {
    let origin = format!("http://127.0.0.1:{}", stub.port);
    let mut config = json!({
        "model": {"default": "bench", "provider": "custom", "base_url": format!("{origin}/v1")},
        "telegram": {"token": TOKEN, "extra": {"base_url": format!("{origin}/bot")}},
        "gateway": {"max_concurrent_turns": 1000},
        "api_server": {"port": api},
        "auxiliary": {"title_generation": {"enabled": false}},
    });
    if let (Some(config), Some(more)) = (config.as_object_mut(), more.as_object()) {
        config.extend(more.clone());
    }
    let home = TemporaryHome::with_config(&config.to_string());
    home.write_env(&format!(
        "API_SERVER_KEY={API_KEY}\nTELEGRAM_ALLOW_ALL_USERS=true\n"
    ));
    home
}

pub(super) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    let pace = ModelPace {
        pieces: 5,
        pause: Duration::from_millis(20),
    };
    let stub = PlatformStub::start(pace)?;
    let port = hermes_testkit::ReservedPort::reserve()?;
    let home = home_with_stub(&stub, port.number(), &json!({}));
    let gateway = GatewayProcess::start(programs, home.path(), port.number())?;
    let count = effort.times(1000) as u64;
    let bare = BareServer::start()?;
    let (mut to_model, mut to_message) = (Samples::default(), Samples::default());
    let mut bare_times = Samples::default();
    for number in 0..count + USERS {
        stub.write(10 + number % USERS, number);
        stub.wait_until(TIMEOUT, "the answer", |stub| stub.times(number).answers > 0)?;
        let times = stub.times(number);
        ensure!(
            times.answers == 1,
            "the message {number} was answered {} times",
            times.answers
        );
        // The first of each session creates it.
        if number >= USERS {
            let given = times.given.context("not given")?;
            let asked = times.asked.context("not asked")?;
            let last = times.last_piece.context("no piece")?;
            let answered = times.answered.context("no answer")?;
            to_model.push(asked.saturating_duration_since(given));
            to_message.push(answered.saturating_duration_since(last));
            bare_times.push(bare.ask()?);
        }
    }
    report.add(ReportRow::p99(
        "update in to the model's request: p99",
        &to_model,
        Some(&bare_times),
        TO_MODEL,
    ));
    report.add(ReportRow::p99(
        "last token to the final message: p99",
        &to_message,
        Some(&bare_times),
        TO_MESSAGE,
    ));
    gateway.stop()
}
