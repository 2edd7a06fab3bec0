//! What was measured, against which target, as a table or as JSON.

use std::{fmt, time::Duration};

use serde_json::{Value, json};

use crate::samples::{Samples, microseconds};

/// Something measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Quantity {
    Time(Duration),
    /// In KiB.
    Memory(u32),
    Count(u32),
    /// In percent.
    Share(f64),
    /// In requests a second.
    Rate(f64),
}

impl Quantity {
    /// In microseconds, KiB, pieces, percent or requests a second.
    fn number(self) -> f64 {
        match self {
            Self::Time(time) => microseconds(time),
            Self::Memory(number) | Self::Count(number) => f64::from(number),
            Self::Share(number) | Self::Rate(number) => number,
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Time(_) => "us",
            Self::Memory(_) => "KiB",
            Self::Count(_) => "",
            Self::Share(_) => "%",
            Self::Rate(_) => "1/s",
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Time(time) => {
                let microseconds = microseconds(time);
                if microseconds < 1_000.0 {
                    write!(f, "{microseconds:.1} us")
                } else {
                    write!(f, "{:.1} ms", microseconds / 1_000.0)
                }
            }
            Self::Memory(kib) => write!(f, "{:.1} MB", f64::from(kib) * 1024.0 / 1e6),
            Self::Count(count) => write!(f, "{count}"),
            Self::Share(percent) => write!(f, "{percent:.3} %"),
            Self::Rate(rate) => write!(f, "{rate:.0}/s"),
        }
    }
}

/// What is asked of a measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Target {
    /// Ours is at most so many times the baseline.
    Ratio(f64),
    /// Ours is at least so many times the baseline: for what is better the more there is.
    AtLeast(f64),
    /// Ours takes at most so much longer than the baseline.
    Longer(Duration),
    /// Ours is below this.
    Below(Quantity),
    /// Ours is the baseline.
    Equal,
    /// Nothing: it is good to know.
    Nothing,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ratio(ratio) => write!(f, "<= {ratio} x"),
            Self::AtLeast(ratio) => write!(f, ">= {ratio} x"),
            Self::Longer(time) => write!(f, "<= +{}", Quantity::Time(*time)),
            Self::Below(quantity) => write!(f, "< {quantity}"),
            Self::Equal => f.write_str("equal"),
            Self::Nothing => f.write_str("-"),
        }
    }
}

/// One line of the table.
#[derive(Debug)]
pub(crate) struct ReportRow {
    measure: String,
    ours: Quantity,
    baseline: Option<Quantity>,
    target: Target,
    /// All times of our side and of the other, where times were taken.
    samples: Option<(Samples, Option<Samples>)>,
}

impl ReportRow {
    pub(crate) fn new(
        measure: impl Into<String>,
        ours: Quantity,
        baseline: Option<Quantity>,
        target: Target,
    ) -> Self {
        Self {
            measure: measure.into(),
            ours,
            baseline,
            target,
            samples: None,
        }
    }

    /// Compares medians.
    pub(crate) fn times(
        measure: impl Into<String>,
        ours: &Samples,
        baseline: &Samples,
        target: Target,
    ) -> Self {
        let median = |samples: &Samples| Quantity::Time(samples.median());
        Self {
            samples: Some((ours.clone(), Some(baseline.clone()))),
            ..Self::new(measure, median(ours), Some(median(baseline)), target)
        }
    }

    /// The median of something that has no other side.
    pub(crate) fn time(measure: impl Into<String>, ours: &Samples, target: Target) -> Self {
        let median = Quantity::Time(ours.median());
        Self {
            samples: Some((ours.clone(), None)),
            ..Self::new(measure, median, None, target)
        }
    }

    /// What 99 of 100 did not exceed, beside the same of another side if there is one.
    pub(crate) fn p99(
        measure: impl Into<String>,
        ours: &Samples,
        baseline: Option<&Samples>,
        target: Target,
    ) -> Self {
        let p99 = |samples: &Samples| Quantity::Time(samples.p99());
        Self {
            samples: Some((ours.clone(), baseline.cloned())),
            ..Self::new(measure, p99(ours), baseline.map(p99), target)
        }
    }

    fn ratio(&self) -> Option<f64> {
        let baseline = self.baseline?.number();
        (baseline > 0.0).then(|| self.ours.number() / baseline)
    }

    /// Whether the target holds; `None` if there is none.
    fn holds(&self) -> Option<bool> {
        let baseline = self.baseline.map(Quantity::number);
        let ours = self.ours.number();
        match self.target {
            Target::Ratio(most) => Some(self.ratio().is_some_and(|ratio| ratio <= most)),
            Target::AtLeast(least) => Some(self.ratio().is_some_and(|ratio| ratio >= least)),
            Target::Longer(by) => {
                Some(baseline.is_some_and(|baseline| ours - baseline <= microseconds(by)))
            }
            Target::Below(limit) => Some(ours < limit.number()),
            Target::Equal => Some(self.baseline == Some(self.ours)),
            Target::Nothing => None,
        }
    }

    fn verdict(&self) -> &'static str {
        match self.holds() {
            Some(true) => "ok",
            Some(false) => "MISSED",
            None => "",
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "measure": self.measure,
            "unit": self.ours.unit(),
            "ours": self.ours.number(),
            "baseline": self.baseline.map(Quantity::number),
            "ratio": self.ratio(),
            "target": self.target.to_string(),
            "holds": self.holds(),
            "samples": self.samples.as_ref().map(|(ours, baseline)| {
                json!({"ours": ours.to_json(), "baseline": baseline.as_ref().map(Samples::to_json)})
            }),
        })
    }
}

/// How one kind of call grows from its floor to the whole: each step adds one thing to the step before it.
#[derive(Debug)]
pub(crate) struct CallBreakdown {
    pub(crate) title: String,
    pub(crate) steps: Vec<BreakdownStep>,
}

/// One step of a ladder.
#[derive(Debug)]
pub(crate) struct BreakdownStep {
    pub(crate) name: &'static str,
    /// What it adds to the step before it; `None` for what stands beside the ladder.
    pub(crate) adds: Option<&'static str>,
    pub(crate) samples: Samples,
}

impl CallBreakdown {
    fn to_text(&self) -> String {
        let mut table = Table::new(&["", "p50", "p99", "x floor", "adds", "which is"]);
        let floor = self
            .steps
            .first()
            .map_or(0.0, |step| microseconds(step.samples.median()));
        let mut below: Option<f64> = None;
        for step in &self.steps {
            let median = microseconds(step.samples.median());
            let added = match (step.adds, below) {
                (Some(_), Some(below)) => format!("{:+.1} us", median - below),
                _ => String::new(),
            };
            if step.adds.is_some() {
                below = Some(median);
            }
            table.row([
                step.name.to_owned(),
                Quantity::Time(step.samples.median()).to_string(),
                Quantity::Time(step.samples.p99()).to_string(),
                format!("{:.1}", median / floor),
                added,
                step.adds.unwrap_or("beside the ladder").to_owned(),
            ]);
        }
        let repetitions = self.steps.first().map_or(0, |step| step.samples.count());
        format!("{} ({repetitions} repetitions each)\n{table}", self.title)
    }

    fn to_json(&self) -> Value {
        let steps: Vec<Value> = self
            .steps
            .iter()
            .map(|step| json!({"step": step.name, "adds": step.adds, "times": step.samples.to_json()}))
            .collect();
        json!({"title": self.title, "steps": steps})
    }
}

/// Everything measured in one run.
#[derive(Debug)]
pub(crate) struct Report {
    rows: Vec<ReportRow>,
    ladders: Vec<CallBreakdown>,
    /// How busy the machine was before.
    load: String,
}

impl Report {
    pub(crate) fn new() -> Self {
        Self {
            rows: Vec::new(),
            ladders: Vec::new(),
            load: load_average(),
        }
    }

    pub(crate) fn add(&mut self, row: ReportRow) {
        self.rows.push(row);
    }

    pub(crate) fn add_ladder(&mut self, ladder: CallBreakdown) {
        self.ladders.push(ladder);
    }

    pub(crate) fn all_targets_hold(&self) -> bool {
        self.rows.iter().all(|row| row.holds() != Some(false))
    }

    pub(crate) fn to_text(&self) -> String {
        let mut table = Table::new(&["MEASURE", "OURS", "BASELINE", "RATIO", "TARGET", "VERDICT"]);
        for row in &self.rows {
            table.row([
                row.measure.clone(),
                row.ours.to_string(),
                row.baseline
                    .map_or("-".into(), |baseline| baseline.to_string()),
                row.ratio()
                    .map_or("-".into(), |ratio| format!("{ratio:.2}")),
                row.target.to_string(),
                row.verdict().to_owned(),
            ]);
        }
        let mut parts = vec![table.to_string()];
        parts.extend(self.ladders.iter().map(CallBreakdown::to_text));
        parts.push(format!(
            "load average (1, 5, 15 min): before {}, after {}; {} cores\n",
            self.load,
            load_average(),
            cores()
        ));
        parts.join("\n")
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "rows": self.rows.iter().map(ReportRow::to_json).collect::<Vec<_>>(),
            "ladders": self.ladders.iter().map(CallBreakdown::to_json).collect::<Vec<_>>(),
            "load_before": self.load,
            "load_after": load_average(),
            "cores": cores(),
        })
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(0, usize::from)
}

fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace()
        .take(3)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Rows under a head, aligned to the left.
#[derive(Debug)]
struct Table<const N: usize> {
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    fn new(head: &[&str; N]) -> Self {
        Self {
            rows: vec![head.map(str::to_owned)],
        }
    }

    fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells);
    }
}

impl<const N: usize> fmt::Display for Table<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut widths = [0; N];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        for row in &self.rows {
            let cells: Vec<String> = row
                .iter()
                .zip(widths)
                .map(|(cell, width)| format!("{cell:width$}"))
                .collect();
            writeln!(f, "{}", cells.join("  ").trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ours: Quantity, baseline: Option<Quantity>, target: Target) -> ReportRow {
        ReportRow::new("x", ours, baseline, target)
    }

    fn milliseconds(number: u64) -> Quantity {
        Quantity::Time(Duration::from_millis(number))
    }

    #[test]
    fn a_ratio_is_missed_above_its_limit_only() {
        let hold = |ours| {
            row(
                milliseconds(ours),
                Some(milliseconds(100)),
                Target::Ratio(1.3),
            )
            .holds()
        };
        assert_eq!(hold(130), Some(true));
        assert_eq!(hold(131), Some(false));
    }

    #[test]
    fn a_ratio_without_a_baseline_is_missed() {
        assert_eq!(
            row(milliseconds(1), None, Target::Ratio(1.3)).holds(),
            Some(false)
        );
    }

    #[test]
    fn a_rate_is_missed_below_its_limit_only() {
        let hold = |ours| {
            let baseline = Some(Quantity::Rate(1_000.0));
            row(Quantity::Rate(ours), baseline, Target::AtLeast(0.8)).holds()
        };
        assert_eq!(hold(800.0), Some(true));
        assert_eq!(hold(799.0), Some(false));
    }

    #[test]
    fn a_difference_counts_from_the_baseline() {
        let hold = |ours| {
            let target = Target::Longer(Duration::from_millis(10));
            row(milliseconds(ours), Some(milliseconds(2)), target).holds()
        };
        assert_eq!(hold(12), Some(true));
        assert_eq!(hold(13), Some(false));
    }

    #[test]
    fn one_missed_target_spoils_the_report_and_none_does_not() {
        let mut report = Report::new();
        report.add(row(milliseconds(9), None, Target::Nothing));
        report.add(row(
            Quantity::Count(3),
            Some(Quantity::Count(3)),
            Target::Equal,
        ));
        assert!(report.all_targets_hold());
        report.add(row(
            Quantity::Count(4),
            Some(Quantity::Count(3)),
            Target::Equal,
        ));
        assert!(!report.all_targets_hold());
        assert!(report.to_text().contains("MISSED"));
    }
}
