//! Log lines as JSON objects, for programs to read. What a span has, such as the id of a request, is a member of every
//! line within it.

use std::fmt;

use serde_json::{Map, Value, json};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    field::RecordFields,
    fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields, format::Writer},
    registry::LookupSpan,
};

/// Writes a line for each event.
pub(super) struct JsonLines;

/// Keeps the members of a span as a JSON object.
pub(super) struct JsonMembers;

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
