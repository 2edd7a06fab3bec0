//! What the agent did to the program as a whole. Its targets are with the host's measurements.

use std::process::Command;

use anyhow::Result;

use crate::{
    cold_start,
    environment::{Effort, Programs},
    report::{Quantity, Report, ReportRow, Target},
    samples::Samples,
};

pub(crate) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    let bytes = std::fs::metadata(&programs.hermes)?.len();
    report.add(ReportRow::new(
        "size of the program",
        Quantity::Memory(u32::try_from(bytes / 1024)?),
        None,
        Target::Nothing,
    ));
    let (mut ours, mut nothing) = (Samples::default(), Samples::default());
    for round in 0..=effort.times(100) {
        let mut version = Command::new(&programs.hermes);
        version.arg("--version");
        let (our_time, _) = cold_start::run_measured(&version)?;
        let (time, _) = cold_start::run_measured(&Command::new("true"))?;
        if round > 0 {
            ours.push(our_time);
            nothing.push(time);
        }
    }
    report.add(ReportRow::times(
        "`hermes --version`",
        &ours,
        &nothing,
        Target::Nothing,
    ));
    Ok(())
}
