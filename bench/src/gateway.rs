//! The gateway with platforms: what it adds between a message and the model, and between the model and the answer; many
//! conversations at once; many bots that have nothing to do; the gateway of Python Hermes beside it, where that is installed;
//! and, by its own command, a hundred thousand messages.

use anyhow::{Context as _, Result, bail};

use crate::{
    environment::{Effort, Programs},
    report::Report,
    report_progress,
};

mod bare;
mod conversations;
mod gateway_process;
mod idle;
mod latency;
mod python;
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
            idle::measure(programs, effort, report)?;
            match python::find_environment() {
                Some(environment) => {
                    report_progress("Python Hermes 0.19")?;
                    python::measure(programs, &environment, effort, report)
                }
                None => Ok(()),
            }
        }
        Some("latency") => latency::measure(programs, effort, report),
        Some("conversations") => conversations::measure(programs, effort, report),
        Some("idle") => idle::measure(programs, effort, report),
        Some("soak") => soak::measure(programs, effort, report),
        Some("python") => {
            let environment = python::find_environment().context(
                "Python Hermes is not installed: run `scripts/equipment install python-hermes`, then \
                 `eval \"$(scripts/equipment env)\"`",
            )?;
            python::measure(programs, &environment, effort, report)
        }
        Some(other) => {
            bail!("unknown part `{other}`: there are latency, conversations, idle, python and soak")
        }
    }
}
