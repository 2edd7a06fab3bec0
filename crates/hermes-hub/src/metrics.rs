//! Metrics of the Hub, in the Prometheus text format.

use std::{
    collections::BTreeMap,
    fmt::{self, Write},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use hermes_config::sync::Mutex;

/// In seconds.
const LATENCY_BUCKETS: [f64; 10] = [
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0,
];

/// Help texts of all metrics. Tests fail for a metric that is missing here.
const HELP: [(&str, &str); 27] = [
    ("agents", "Agents by state."),
    ("approvals_pending", "Pending approvals."),
    (
        "bots",
        "Bots of tenants on messaging platforms, by platform and state.",
    ),
    (
        "approvals_total",
        "Approvals that were decided or expired, by state.",
    ),
    ("auth_failures_total", "Requests with a wrong token."),
    (
        "connections_refused_total",
        "Connections that were closed because there were too many.",
    ),
    ("cron_fires_total", "Jobs that ran when they were due."),
    ("cron_lateness_seconds", "How late jobs ran."),
    (
        "cron_skips_total",
        "Due times of jobs without a run, by reason.",
    ),
    (
        "database_connections",
        "Connections of readers to the database, by state.",
    ),
    (
        "disk_free_bytes",
        "Free bytes of the file system that holds the data.",
    ),
    (
        "disk_size_bytes",
        "Bytes of the file system that holds the data.",
    ),
    ("failed_starts_total", "Starts of agents that failed."),
    ("mcp_sessions", "MCP sessions in this process."),
    ("request_seconds", "How long calls of operations took."),
    (
        "requests_total",
        "Calls of operations, by interface and status.",
    ),
    ("runs", "Stored runs, by status."),
    (
        "runs_ended_total",
        "Runs that ended since the start, by status.",
    ),
    ("runs_total", "Runs, by status."),
    (
        "spans_dropped_total",
        "Spans that did not reach the collector.",
    ),
    (
        "spans_exported_total",
        "Spans that were sent to the collector, with those of tenants.",
    ),
    (
        "tenant_bot_last_ok_seconds",
        "When each bot heard something last, in seconds since 1970.",
    ),
    (
        "tenant_used_bytes",
        "Bytes used by the home of each tenant.",
    ),
    ("tenants", "Tenants by state."),
    ("used_bytes", "Bytes used by homes and shares."),
    (
        "wake_seconds",
        "From the start of an agent to its first answer.",
    ),
    (
        "agent_deaths_total",
        "Agents that ended unexpectedly, by cause.",
    ),
];

fn help_text(name: &str) -> &'static str {
    let entry = HELP.iter().find(|(known, _)| *known == name);
    debug_assert!(entry.is_some(), "metric `{name}` has no help text");
    entry.map_or("", |(_, help)| help)
}

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
    buckets: [u64; LATENCY_BUCKETS.len()],
    count: u64,
    sum: f64,
}

impl Metrics {
    pub(crate) fn record_request(
        &self,
        operation: &'static str,
        via: &'static str,
        status: u16,
        took: Duration,
    ) {
        *lock(&self.requests)
            .entry((operation, via, status))
            .or_default() += 1;
        lock(&self.latencies)
            .entry(operation)
            .or_default()
            .observe(took.as_secs_f64());
    }

    pub(crate) fn record_auth_failure(&self) {
        self.auth_failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds to a counter. `labels` is for example `status="completed"`, or empty.
    pub fn increment(&self, name: &'static str, labels: impl Into<String>, by: u64) {
        debug_assert!(!help_text(name).is_empty());
        *lock(&self.counters)
            .entry((name, labels.into()))
            .or_default() += by;
    }

    /// Adds to a histogram of durations.
    pub fn record_duration(&self, name: &'static str, time: Duration) {
        debug_assert!(!help_text(name).is_empty());
        lock(&self.durations)
            .entry(name)
            .or_default()
            .observe(time.as_secs_f64());
    }

    /// All metrics and these gauges (name, labels, value) as text.
    pub fn render(&self, gauges: &[(&str, String, u64)]) -> String {
        let mut text = String::new();
        let mut line = |arguments: fmt::Arguments<'_>| {
            let _ = writeln!(text, "{arguments}");
        };
        write_header("requests_total", "counter", &mut line);
        for ((operation, via, status), count) in &*lock(&self.requests) {
            line(format_args!(
                "hermes_hub_requests_total{{operation=\"{operation}\",via=\"{via}\",code=\"{status}\"}} {count}"
            ));
        }
        write_header("request_seconds", "histogram", &mut line);
        for (operation, histogram) in &*lock(&self.latencies) {
            let label = format!("operation=\"{operation}\"");
            histogram.write("request_seconds", &label, &mut line);
        }
        for (name, histogram) in &*lock(&self.durations) {
            write_header(name, "histogram", &mut line);
            histogram.write(name, "", &mut line);
        }
        write_header("auth_failures_total", "counter", &mut line);
        line(format_args!(
            "hermes_hub_auth_failures_total {}",
            self.auth_failures.load(Ordering::Relaxed)
        ));
        if let Some(export) = hermes_config::trace_context::export() {
            let spans = export.counts();
            for (name, count) in [
                ("spans_dropped_total", spans.dropped),
                ("spans_exported_total", spans.exported),
            ] {
                write_header(name, "counter", &mut line);
                line(format_args!("hermes_hub_{name} {count}"));
            }
        }
        let mut named = "";
        for ((name, labels), count) in &*lock(&self.counters) {
            if named != *name {
                write_header(name, "counter", &mut line);
                named = *name;
            }
            line(format_args!(
                "hermes_hub_{name}{} {count}",
                format_labels(labels)
            ));
        }
        for (name, labels, value) in gauges {
            if named != *name {
                write_header(name, "gauge", &mut line);
                named = *name;
            }
            line(format_args!(
                "hermes_hub_{name}{} {value}",
                format_labels(labels)
            ));
        }
        text
    }
}

/// Writes the `HELP` and `TYPE` lines of a metric.
fn write_header(name: &str, kind: &str, line: &mut impl FnMut(fmt::Arguments<'_>)) {
    line(format_args!("# HELP hermes_hub_{name} {}", help_text(name)));
    line(format_args!("# TYPE hermes_hub_{name} {kind}"));
}

fn format_labels(labels: &str) -> String {
    if labels.is_empty() {
        String::new()
    } else {
        format!("{{{labels}}}")
    }
}

fn lock<T>(mutex: &Mutex<T>) -> hermes_config::sync::MutexGuard<'_, T> {
    mutex.lock()
}

impl Histogram {
    fn observe(&mut self, seconds: f64) {
        self.count += 1;
        self.sum += seconds;
        if let Some(at) = LATENCY_BUCKETS.iter().position(|bound| seconds <= *bound) {
            self.buckets[at] += 1;
        }
    }

    /// Writes its lines. `label` is for example `operation="get_tenant"`, or empty.
    fn write(&self, name: &str, label: &str, line: &mut impl FnMut(fmt::Arguments<'_>)) {
        let comma = if label.is_empty() { "" } else { "," };
        let mut sum = 0;
        for (bound, count) in LATENCY_BUCKETS.iter().zip(self.buckets) {
            sum += count;
            line(format_args!(
                "hermes_hub_{name}_bucket{{{label}{comma}le=\"{bound}\"}} {sum}"
            ));
        }
        let (count, total, labels) = (self.count, self.sum, format_labels(label));
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
    fn every_figure_says_once_what_it_is_and_of_which_kind() {
        let metrics = Metrics::default();
        metrics.record_request("get_tenant", "mcp", 200, Duration::from_millis(2));
        metrics.increment("runs_ended_total", "status=\"completed\"", 3);
        metrics.increment("runs_ended_total", "status=\"failed\"", 1);
        metrics.increment("cron_fires_total", "", 1);
        metrics.record_duration("wake_seconds", Duration::from_millis(40));
        let text = metrics.render(&[
            ("tenants", "state=\"ready\"".into(), 5),
            ("tenants", "state=\"failed\"".into(), 1),
            ("mcp_sessions", String::new(), 0),
        ]);
        let mut introduced = Vec::new();
        for line in text.lines() {
            let mut words = line.split(' ');
            match (words.next().unwrap(), words.next().unwrap()) {
                ("#", "HELP") => {
                    let name = words.next().unwrap();
                    assert!(words.next().is_some(), "{line}");
                    assert!(!introduced.contains(&name), "{name} twice");
                    introduced.push(name);
                }
                ("#", "TYPE") => assert_eq!(words.next(), introduced.last().copied(), "{text}"),
                (sample, _) => {
                    let name = introduced.last().unwrap();
                    assert!(sample.starts_with(name), "{sample} after {name}");
                }
            }
        }
        assert_eq!(introduced.len(), 8, "{text}");
    }

    #[test]
    fn requests_are_counted_by_operation_and_code_and_their_time_is_summed_up() {
        let metrics = Metrics::default();
        metrics.record_request("get_tenant", "mcp", 200, Duration::from_millis(2));
        metrics.record_request("get_tenant", "mcp", 200, Duration::from_mins(1));
        metrics.increment("runs_total", "status=\"completed\"", 3);
        metrics.record_duration("wake_seconds", Duration::from_millis(40));
        let text = metrics.render(&[("tenants", "state=\"ready\"".into(), 5)]);
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
            assert!(
                text.lines().any(|written| written == line),
                "{line}\n{text}"
            );
        }
    }
}
