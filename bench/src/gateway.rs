//! The gateway with platforms: what it adds between a message and the model, and between the model and the answer; many
//! conversations at once; many bots that have nothing to do; and, by its own command, a hundred thousand messages.

use anyhow::{Result, bail};

use crate::{
    environment::{Effort, Programs},
    report::Report,
    report_progress,
};

mod conversations;
mod gateway_process;
mod idle;
mod latency;
mod soak;
mod stub;

pub(crate) fn measure(
    programs: &Programs,
    effort: Effort,
    only: Option<&str>,
    report: &mut Report,
) -> Result<()> {
    match only {
        None => {
            report_progress("latency")?;
            latency::measure(programs, effort, report)?;
            report_progress("many conversations")?;
            conversations::measure(programs, effort, report)?;
            report_progress("idle bots")?;
            idle::measure(programs, effort, report)
        }
        Some("latency") => latency::measure(programs, effort, report),
        Some("conversations") => conversations::measure(programs, effort, report),
        Some("idle") => idle::measure(programs, effort, report),
        Some("soak") => soak::measure(programs, effort, report),
        Some(other) => {
            bail!("unknown part `{other}`: there are latency, conversations, idle and soak")
        }
    }
}
