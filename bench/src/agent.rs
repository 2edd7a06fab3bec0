//! The agent: a question from start to end, a turn of many calls, the store behind it, and the first token.

use anyhow::Result;
use serde_json::{Value, json};

use crate::{
    environment::{Effort, Programs},
    report::Report,
    report_progress,
};

pub(crate) mod question;

mod search;
mod token;
mod turn;

pub(crate) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    report_progress("a question")?;
    question::measure(programs, effort, report)?;
    report_progress("the first token")?;
    token::measure(programs, effort, report)?;
    report_progress("a turn")?;
    turn::measure(effort, report)?;
    report_progress("search, after filling a store")?;
    search::measure(effort, report)
}

/// The `model` of a configuration that asks this address.
fn model_entry(base_url: &str) -> Value {
    json!({"default": "bench", "provider": "custom", "base_url": base_url})
}
