//! Three nodes under load that are killed, stand still and are cut off from database and objects: what was acknowledged
//! is there, once, and how long it takes until others work for the tenants of a node that was killed.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::Result;
use hermes_testkit::{
    nodes::{FaultPlan, FaultReport, NodeCluster, NodeFault, run_faults},
    postgres::PostgresCluster,
};

use crate::{
    environment::{Effort, Programs},
    report::{Quantity, Report, ReportRow, Target},
    report_progress,
    samples::Samples,
};

const LEASE_SECONDS: u64 = 5;
const LIMIT: Target = Target::Below(Quantity::Time(Duration::from_secs(LEASE_SECONDS + 5)));
const NONE: Target = Target::Below(Quantity::Count(1));

/// Another order of the same faults: a number.
const SEED_VARIABLE: &str = "HERMES_BENCH_SEED";
const COUNT_VARIABLE: &str = "HERMES_BENCH_FAULTS";

pub(super) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    let count = number_of(COUNT_VARIABLE).unwrap_or(match effort {
        Effort::Full => 200,
        Effort::Quick => 9,
    });
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let seed = number_of(SEED_VARIABLE).unwrap_or(now);
    let plan = FaultPlan::random(seed, usize::try_from(count)?);
    let faults = run(programs, &plan)?;
    add_rows(&faults, report)
}

/// Kills alone.
pub(super) fn measure_failover(
    programs: &Programs,
    effort: Effort,
    report: &mut Report,
) -> Result<()> {
    let kills = match effort {
        Effort::Full => 10,
        Effort::Quick => 2,
    };
    let plan = FaultPlan {
        seed: 1,
        faults: vec![NodeFault::Kill; kills],
    };
    let faults = run(programs, &plan)?;
    add_rows(&faults, report)
}

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn run(programs: &Programs, plan: &FaultPlan) -> Result<FaultReport> {
    report_progress(&format!("{} faults, seed {}", plan.faults.len(), plan.seed))?;
    let postgres = Arc::new(PostgresCluster::start(&[]));
    let mut cluster = NodeCluster::start(&programs.hermes, &postgres, 3, LEASE_SECONDS);
    let mut tell = |line: &str| {
        // Nobody may be reading.
        let _ = report_progress(line);
    };
    let report = run_faults(&mut cluster, plan, &mut tell);
    report_progress(&report.to_string())?;
    Ok(report)
}

fn add_rows(faults: &FaultReport, report: &mut Report) -> Result<()> {
    let count: usize = faults.faults.values().sum();
    report.add(ReportRow::new(
        format!("{count} faults of nodes under load: lost, doubled or wrong"),
        Quantity::Count(u32::try_from(faults.problems.len())?),
        None,
        NONE,
    ));
    for (what, times) in [
        ("a change of a home", &faults.change_failovers),
        ("the end of a run", &faults.run_failovers),
    ] {
        if times.is_empty() {
            continue;
        }
        let mut samples = Samples::default();
        for time in times {
            samples.push(*time);
        }
        report.add(ReportRow::p99(
            format!("fail-over after a kill, lease of {LEASE_SECONDS} s: {what}, longest"),
            &samples,
            None,
            LIMIT,
        ));
    }
    Ok(())
}
