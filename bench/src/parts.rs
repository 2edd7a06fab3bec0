//! The parts of a benchmark, which are measured one by one or all.

use anyhow::{Result, bail};

use crate::{
    environment::{Effort, Programs},
    report::Report,
    report_progress,
};

/// The name of a part, and what measures it.
pub(crate) type Part = (
    &'static str,
    fn(&Programs, Effort, &mut Report) -> Result<()>,
);

/// Measures one part of `subject`, or all.
pub(crate) fn measure_parts(
    subject: &str,
    parts: &[Part],
    programs: &Programs,
    effort: Effort,
    only: Option<&str>,
    report: &mut Report,
) -> Result<()> {
    let names: Vec<&str> = parts.iter().map(|(name, _)| *name).collect();
    if let Some(only) = only.filter(|only| !names.contains(only)) {
        bail!("there is no part `{only}`; there are {}", names.join(", "));
    }
    for (name, part) in parts {
        if only.is_none_or(|only| only == *name) {
            report_progress(&format!("{subject}: {name}"))?;
            part(programs, effort, report)?;
        }
    }
    Ok(())
}
