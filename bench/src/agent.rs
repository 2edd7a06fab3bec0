//! The agent: a question from start to end, a turn of many calls, the store behind it, and the first token.

use anyhow::Result;
use serde_json::{Value, json};

use crate::{
    note,
    report::Report,
    scene::{Effort, Programs},
};

pub(crate) mod question;

mod facts;
mod search;
mod token;
mod turn;

pub(crate) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    note("a question")?;
    question::measure(programs, effort, report)?;
    note("the first token")?;
    token::measure(programs, effort, report)?;
    note("a turn")?;
    turn::measure(effort, report)?;
    note("search, after filling a store")?;
    search::measure(effort, report)?;
    facts::measure(programs, effort, report)
}

/// The `model` of a configuration that asks this address.
fn model_entry(base_url: &str) -> Value {
    json!({"default": "bench", "provider": "custom", "base_url": base_url})
}
