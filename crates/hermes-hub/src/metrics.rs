//! Figures about the Hub, in Prometheus' text format.

use std::{
    collections::BTreeMap,
    fmt::{self, Write},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Upper bounds of latencies, in seconds.
const BOUNDS: [f64; 10] = [
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0,
];

/// All figures.
#[derive(Debug, Default)]
pub struct Metrics {
    requests: Mutex<BTreeMap<(&'static str, &'static str, u16), u64>>,
    latencies: Mutex<BTreeMap<&'static str, Histogram>>,
    counters: Mutex<BTreeMap<(&'static str, String), u64>>,
    durations: Mutex<BTreeMap<&'static str, Histogram>>,
    auth_failures: AtomicU64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Histogram {
    buckets: [u64; BOUNDS.len()],
    count: u64,
    sum: f64,
}

impl Metrics {
    /// An operation was called.
    pub(crate) fn request(
        &self,
        operation: &'static str,
        via: &'static str,
        status: u16,
        took: Duration,
    ) {
        *locked(&self.requests)
            .entry((operation, via, status))
            .or_default() += 1;
        locked(&self.latencies)
            .entry(operation)
            .or_default()
            .add(took.as_secs_f64());
    }

    /// A token was wrong.
    pub(crate) fn auth_failure(&self) {
        self.auth_failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds to a counter that others keep: runs by status, fires of cron jobs and so on. `labels` as in
    /// `status="completed"`, or empty.
    pub fn count(&self, name: &'static str, labels: impl Into<String>, by: u64) {
        *locked(&self.counters)
            .entry((name, labels.into()))
            .or_default() += by;
    }

    /// Adds to the distribution of something that takes time: waking, how late jobs are.
    pub fn took(&self, name: &'static str, time: Duration) {
        locked(&self.durations)
            .entry(name)
            .or_default()
            .add(time.as_secs_f64());
    }

    /// Everything, and these present values: name, labels, value.
    pub fn text(&self, gauges: &[(&str, String, u64)]) -> String {
        let mut text = String::new();
        let mut line = |arguments: fmt::Arguments<'_>| {
            let _ = writeln!(text, "{arguments}");
        };
        line(format_args!("# TYPE hermes_hub_requests_total counter"));
        for ((operation, via, status), count) in &*locked(&self.requests) {
            line(format_args!(
                "hermes_hub_requests_total{{operation=\"{operation}\",via=\"{via}\",code=\"{status}\"}} {count}"
            ));
        }
        line(format_args!("# TYPE hermes_hub_request_seconds histogram"));
        for (operation, histogram) in &*locked(&self.latencies) {
            let label = format!("operation=\"{operation}\"");
            histogram.write("request_seconds", &label, &mut line);
        }
        for (name, histogram) in &*locked(&self.durations) {
            line(format_args!("# TYPE hermes_hub_{name} histogram"));
            histogram.write(name, "", &mut line);
        }
        line(format_args!(
            "# TYPE hermes_hub_auth_failures_total counter"
        ));
        line(format_args!(
            "hermes_hub_auth_failures_total {}",
            self.auth_failures.load(Ordering::Relaxed)
        ));
        let mut named = "";
        for ((name, labels), count) in &*locked(&self.counters) {
            if named != *name {
                line(format_args!("# TYPE hermes_hub_{name} counter"));
                named = *name;
            }
            line(format_args!("hermes_hub_{name}{} {count}", braced(labels)));
        }
        for (name, labels, value) in gauges {
            if named != *name {
                line(format_args!("# TYPE hermes_hub_{name} gauge"));
                named = *name;
            }
            line(format_args!("hermes_hub_{name}{} {value}", braced(labels)));
        }
        text
    }
}

fn braced(labels: &str) -> String {
    if labels.is_empty() {
        String::new()
    } else {
        format!("{{{labels}}}")
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Histogram {
    fn add(&mut self, seconds: f64) {
        self.count += 1;
        self.sum += seconds;
        if let Some(at) = BOUNDS.iter().position(|bound| seconds <= *bound) {
            self.buckets[at] += 1;
        }
    }

    /// Its lines. `label` as in `operation="get_tenant"`, or empty.
    fn write(&self, name: &str, label: &str, line: &mut impl FnMut(fmt::Arguments<'_>)) {
        let comma = if label.is_empty() { "" } else { "," };
        let mut sum = 0;
        for (bound, count) in BOUNDS.iter().zip(self.buckets) {
            sum += count;
            line(format_args!(
                "hermes_hub_{name}_bucket{{{label}{comma}le=\"{bound}\"}} {sum}"
            ));
        }
        let (count, total, labels) = (self.count, self.sum, braced(label));
        line(format_args!(
            "hermes_hub_{name}_bucket{{{label}{comma}le=\"+Inf\"}} {count}"
        ));
        line(format_args!("hermes_hub_{name}_sum{labels} {total}"));
        line(format_args!("hermes_hub_{name}_count{labels} {count}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_operation_and_code_and_their_time_is_summed_up() {
        let metrics = Metrics::default();
        metrics.request("get_tenant", "mcp", 200, Duration::from_millis(2));
        metrics.request("get_tenant", "mcp", 200, Duration::from_mins(1));
        metrics.count("runs_total", "status=\"completed\"", 3);
        metrics.took("wake_seconds", Duration::from_millis(40));
        let text = metrics.text(&[("tenants", "state=\"ready\"".into(), 5)]);
        for line in [
            "hermes_hub_requests_total{operation=\"get_tenant\",via=\"mcp\",code=\"200\"} 2",
            "hermes_hub_request_seconds_bucket{operation=\"get_tenant\",le=\"0.0025\"} 1",
            "hermes_hub_request_seconds_bucket{operation=\"get_tenant\",le=\"5\"} 1",
            "hermes_hub_request_seconds_bucket{operation=\"get_tenant\",le=\"+Inf\"} 2",
            "hermes_hub_runs_total{status=\"completed\"} 3",
            "# TYPE hermes_hub_wake_seconds histogram",
            "hermes_hub_wake_seconds_bucket{le=\"0.01\"} 0",
            "hermes_hub_wake_seconds_bucket{le=\"0.05\"} 1",
            "hermes_hub_wake_seconds_count 1",
            "# TYPE hermes_hub_tenants gauge",
            "hermes_hub_tenants{state=\"ready\"} 5",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
