//! What clients were told, and what came of it all.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

/// The writes of one key, whose only writer counts up.
#[derive(Debug, Default, Clone)]
pub(super) struct KeyWrites {
    /// The last one that was acknowledged.
    pub(super) acknowledged: Option<u64>,
    /// Those of which nobody knows. They may be done late, by a node that stood still.
    pub(super) unknown: BTreeSet<u64>,
}

impl KeyWrites {
    pub(super) fn may_be(&self, found: Option<u64>) -> bool {
        found == self.acknowledged || found.is_some_and(|found| self.unknown.contains(&found))
    }
}

/// Something whose value is written again and again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WriteKey {
    DisplayName(String),
    /// Of the workspace.
    File(String),
    /// Of the group's share.
    ShareFile(String),
}

/// A run that was accepted.
#[derive(Debug, Clone)]
pub(super) struct AcceptedRun {
    pub(super) tenant: String,
    pub(super) id: String,
    /// Its number of the load, which is in its metadata.
    pub(super) number: u64,
    /// It does something that needs an approval.
    pub(super) asks: bool,
}

#[derive(Debug, Default)]
pub(super) struct WriteLedger {
    pub(super) keys: BTreeMap<WriteKey, KeyWrites>,
    /// Tenant and name of variables whose setting was acknowledged.
    pub(super) variables: Vec<(String, String)>,
    pub(super) runs: Vec<AcceptedRun>,
    /// Approval and choice of decisions that were acknowledged.
    pub(super) decisions: Vec<(String, String)>,
    /// Tenant and id of jobs whose creation was acknowledged.
    pub(super) jobs: Vec<(String, String)>,
    pub(super) acknowledged: u64,
    /// Requests that were refused or had no answer.
    pub(super) refused: BTreeMap<String, u64>,
}

/// What came of the faults.
#[derive(Debug, Default)]
pub struct FaultReport {
    pub seed: u64,
    /// Faults by kind.
    pub faults: BTreeMap<&'static str, usize>,
    /// From the kill of a holder to the first change of a tenant's home by another node.
    pub change_failovers: Vec<Duration>,
    /// The same to the end of a run that was asked for then.
    pub run_failovers: Vec<Duration>,
    pub acknowledged: u64,
    pub refused: BTreeMap<String, u64>,
    pub runs: usize,
    pub jobs: usize,
    pub decisions: usize,
    /// What was lost, doubled or wrong, and tenants that had processes on two nodes.
    pub problems: Vec<String>,
}

impl fmt::Display for FaultReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count: usize = self.faults.values().sum();
        writeln!(f, "seed {}: {count} faults {:?}", self.seed, self.faults)?;
        writeln!(
            f,
            "{} acknowledged writes, {} runs, {} decisions, {} jobs; not acknowledged: {:?}",
            self.acknowledged, self.runs, self.decisions, self.jobs, self.refused
        )?;
        for (what, times) in [
            ("change", &self.change_failovers),
            ("run", &self.run_failovers),
        ] {
            let mut times = times.clone();
            times.sort_unstable();
            if let (Some(middle), Some(longest)) = (times.get(times.len() / 2), times.last()) {
                let number = times.len();
                writeln!(
                    f,
                    "fail-over to a {what}: {number} times, median {middle:.1?}, longest {longest:.1?}"
                )?;
            }
        }
        writeln!(f, "{} problems", self.problems.len())?;
        self.problems
            .iter()
            .try_for_each(|problem| writeln!(f, "- {problem}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_acknowledged_value_and_unknown_ones_may_be_there() {
        let writes = KeyWrites {
            acknowledged: Some(7),
            unknown: BTreeSet::from([5, 8]),
        };
        for (found, is_fine) in [(7, true), (5, true), (8, true), (6, false), (9, false)] {
            assert_eq!(writes.may_be(Some(found)), is_fine, "{found}");
        }
        assert!(!writes.may_be(None));
        assert!(KeyWrites::default().may_be(None));
    }
}
