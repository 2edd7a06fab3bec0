//! Where log lines go: for commands that stay, to `logs/hermes.log` in the home; for short ones, to stderr and only if
//! `HERMES_LOG` is set. Its value is a filter such as `debug` or `hermes_mcp=trace,info`. They are text, or JSON
//! objects for programs to read.

use std::{
    borrow::Cow,
    fmt,
    io::{self, IsTerminal, Write},
    sync::Mutex,
};

use hermes_config::{Home, LogFile, Redactor, Variables};
use serde_json::{Map, Value, json};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    field::RecordFields,
    fmt::{self as lines, FmtContext, FormatEvent, FormatFields, FormattedFields, format::Writer},
    layer::SubscriberExt as _,
    registry::LookupSpan,
    util::SubscriberInitExt as _,
};

use crate::{failure::Failure, telemetry};

const FILTER_VARIABLE: &str = "HERMES_LOG";
const DEFAULT_FILTER: &str = "info";
/// The protocol library tells of every message; ask for it by name to hear that.
const LIBRARY_FILTER: &str = "rmcp=warn";

/// Where a home's own log is.
pub(crate) fn log_path(home: &Home) -> std::path::PathBuf {
    home.logs_dir().join("hermes.log")
}

/// Sends log lines to the home's log file.
pub(crate) fn log_to_file(home: &Home) -> Result<(), Failure> {
    let (variables, _) = Variables::load(home, None);
    let file = RedactingWriter::new(
        LogFile::new(log_path(home)),
        Redactor::for_variables(&variables),
    );
    let wanted = std::env::var(FILTER_VARIABLE).unwrap_or_else(|_| DEFAULT_FILTER.to_owned());
    let layer = lines::layer()
        .with_ansi(false)
        .with_writer(Mutex::new(file));
    install(layer, parse_filter(&wanted)?);
    Ok(())
}

/// Sends log lines to this file, each as a JSON object, for programs to read.
pub(crate) fn log_json_to_file(path: std::path::PathBuf) -> Result<(), Failure> {
    let wanted = std::env::var(FILTER_VARIABLE).unwrap_or_else(|_| DEFAULT_FILTER.to_owned());
    let layer = lines::layer()
        .fmt_fields(JsonMembers)
        .event_format(JsonLines)
        .with_writer(Mutex::new(RedactingWriter::new(
            LogFile::new(path),
            Redactor::default(),
        )));
    install(layer, parse_filter(&wanted)?);
    Ok(())
}

/// Sends log lines to stderr: for people on a terminal, as JSON objects elsewhere.
pub(crate) fn log_to_terminal_or_json(usual: &str) -> Result<(), Failure> {
    if std::io::stderr().is_terminal() {
        return log_to_stderr_with_default(usual);
    }
    let wanted = std::env::var(FILTER_VARIABLE);
    let layer = lines::layer()
        // As below.
        .log_internal_errors(false)
        .fmt_fields(JsonMembers)
        .event_format(JsonLines)
        .with_writer(|| RedactingWriter::new(std::io::stderr(), Redactor::default()));
    install(layer, parse_filter(wanted.as_deref().unwrap_or(usual))?);
    Ok(())
}

/// Whether the user asks to see log lines.
pub(crate) fn is_requested() -> bool {
    std::env::var_os(FILTER_VARIABLE).is_some()
}

/// Sends log lines to stderr if the user wants to see any.
pub(crate) fn log_to_stderr_if_requested() -> Result<(), Failure> {
    match std::env::var(FILTER_VARIABLE) {
        Ok(wanted) => log_to_stderr(&wanted),
        Err(_) => Ok(()),
    }
}

/// Sends log lines to stderr: those the user asks for, or else these.
pub(crate) fn log_to_stderr_with_default(usual: &str) -> Result<(), Failure> {
    let wanted = std::env::var(FILTER_VARIABLE);
    log_to_stderr(wanted.as_deref().unwrap_or(usual))
}

fn log_to_stderr(wanted: &str) -> Result<(), Failure> {
    let layer = lines::layer()
        // A stderr that nobody reads any more would be told of on stderr, and that ends whoever wrote the line.
        .log_internal_errors(false)
        .with_ansi(false)
        .with_writer(|| RedactingWriter::new(std::io::stderr(), Redactor::default()));
    install(layer, parse_filter(wanted)?);
    Ok(())
}

/// Sends log lines that pass the filter to this layer, and spans to a collector if there is one.
fn install<L>(layer: L, filter: EnvFilter)
where
    L: Layer<Registry> + Send + Sync + 'static,
{
    if let Some(spans) = telemetry::layer() {
        let lines = layer.with_filter(filter);
        tracing_subscriber::registry()
            .with(lines)
            .with(spans)
            .init();
    } else {
        tracing_subscriber::registry()
            .with(layer)
            .with(filter)
            .init();
    }
}

fn parse_filter(wanted: &str) -> Result<EnvFilter, Failure> {
    EnvFilter::builder()
        .parse(format!("{LIBRARY_FILTER},{wanted}"))
        .map_err(|error| {
            Failure::usage(format!("`{FILTER_VARIABLE}={wanted}` is not a log filter: {error}"))
                .hint("a level (`error`, `warn`, `info`, `debug`, `trace`) or a list such as `hermes_mcp=debug,info`")
        })
}

/// Takes one whole line at a time and passes it on without credentials.
struct RedactingWriter<W> {
    inner: W,
    redactor: Redactor,
}

impl<W> RedactingWriter<W> {
    fn new(inner: W, redactor: Redactor) -> Self {
        Self { inner, redactor }
    }
}

impl<W: Write> Write for RedactingWriter<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match str::from_utf8(line).map(|text| self.redactor.redact(text)) {
            Ok(Cow::Owned(redacted)) => self.inner.write_all(redacted.as_bytes())?,
            _ => self.inner.write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Writes a line for each event.
struct JsonLines;

/// Keeps the members of a span as a JSON object.
struct JsonMembers;

#[derive(Default)]
struct SpanMembers(Map<String, Value>);

impl Visit for SpanMembers {
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0
            .insert(field.name().into(), format!("{value:?}").into());
    }
}

impl<'w> FormatFields<'w> for JsonMembers {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut members = SpanMembers::default();
        fields.record(&mut members);
        write!(writer, "{}", Value::Object(members.0))
    }
}

impl<S> FormatEvent<S, JsonMembers> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonMembers>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = Map::new();
        let metadata = event.metadata();
        line.insert("time".into(), jiff::Timestamp::now().to_string().into());
        line.insert("level".into(), metadata.level().as_str().into());
        line.insert("target".into(), metadata.target().into());
        for span in context.event_scope().into_iter().flatten() {
            let extensions = span.extensions();
            let kept = extensions.get::<FormattedFields<JsonMembers>>();
            let members = kept.and_then(|kept| serde_json::from_str(kept).ok());
            if let Some(Value::Object(members)) = members {
                for (name, value) in members {
                    // An inner span says it more exactly.
                    line.entry(name).or_insert(value);
                }
            }
        }
        let mut members = SpanMembers::default();
        event.record(&mut members);
        line.extend(members.0);
        writeln!(writer, "{}", json!(line))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{self, Write},
        sync::{Arc, Mutex},
    };

    use super::*;

    #[test]
    fn a_level_applies_to_all_but_the_protocol_library() {
        assert_eq!(
            parse_filter("debug").unwrap().to_string(),
            "rmcp=warn,debug"
        );
    }

    #[test]
    fn the_protocol_library_can_be_asked_for_by_name() {
        let filter = parse_filter("rmcp=trace").unwrap().to_string();
        assert!(filter.contains("rmcp=trace"), "{filter}");
        assert!(!filter.contains("rmcp=warn"), "{filter}");
    }

    #[test]
    fn a_filter_that_makes_no_sense_is_wrong_usage() {
        let failure = parse_filter("hermes=loud").unwrap_err();
        assert_eq!(failure.exit_code(), 2);
        assert!(failure.message.contains("hermes=loud"), "{failure:?}");
    }

    use hermes_config::Secret;

    #[test]
    fn lines_of_any_library_lose_their_credentials_and_nothing_else() {
        let redactor = Redactor::new([Secret::new("own-secret".to_owned())]);
        let mut log = RedactingWriter::new(Vec::new(), redactor);
        log.write_all(b"INFO rmcp: header Bearer abc.def123\n")
            .unwrap();
        log.write_all("WARN x: own-secret, größer\n".as_bytes())
            .unwrap();
        log.write_all(b"INFO plain\n").unwrap();
        assert_eq!(
            String::from_utf8(log.inner).unwrap(),
            "INFO rmcp: header [REDACTED]\nWARN x: [REDACTED], größer\nINFO plain\n"
        );
    }

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_has_what_its_request_has() {
        let written = Written::default();
        let to = written.clone();
        let subscriber = tracing_subscriber::fmt()
            .fmt_fields(JsonMembers)
            .event_format(JsonLines)
            .with_writer(move || to.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let span = tracing::info_span!("request", requestId = %"req_1", operation = "a\"b");
            span.in_scope(|| tracing::warn!(status = 503, "it failed"));
            tracing::info!("outside");
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines[0]["requestId"], "req_1");
        assert_eq!(lines[0]["operation"], "a\"b");
        assert_eq!(lines[0]["status"], 503);
        assert_eq!(lines[0]["message"], "it failed");
        assert_eq!(lines[0]["level"], "WARN");
        assert!(lines[1]["requestId"].is_null() && lines[1]["time"].is_string());
    }
}
