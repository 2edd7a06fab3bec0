//! A receiver of traces on a loopback port, which reads them with the types of OpenTelemetry's own protocol, and may
//! misbehave.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value::Value},
    trace::v1::Span,
};
use prost::Message as _;

use crate::harness::test_home::wait_until;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReceiverMode {
    Accepts,
    /// Takes requests and never answers.
    Silent,
    /// Answers something that is no HTTP.
    Garbage,
    /// Answers that it is out of order.
    Fails,
}

#[derive(Debug, Clone)]
pub(crate) struct ReceivedSpan {
    pub(crate) name: String,
    pub(crate) trace: String,
    pub(crate) id: String,
    /// Empty for the first span of a trace.
    pub(crate) parent: String,
    pub(crate) attributes: BTreeMap<String, String>,
    /// Of the process that made it.
    pub(crate) resource: BTreeMap<String, String>,
}

/// The receiver. Its threads end with the test's process.
pub(crate) struct TraceReceiver {
    pub(crate) url: String,
    spans: Arc<Mutex<Vec<ReceivedSpan>>>,
    heads: Arc<Mutex<Vec<String>>>,
}

impl TraceReceiver {
    pub(crate) fn start(mode: ReceiverMode) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let receiver = Self {
            url: format!("http://{}", listener.local_addr().unwrap()),
            spans: Arc::default(),
            heads: Arc::default(),
        };
        let (spans, heads) = (receiver.spans.clone(), receiver.heads.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (spans, heads) = (spans.clone(), heads.clone());
                thread::spawn(move || answer(stream, mode, &spans, &heads));
            }
        });
        receiver
    }

    pub(crate) fn spans(&self) -> Vec<ReceivedSpan> {
        self.spans.lock().unwrap().clone()
    }

    /// The heads of all requests, in lower case.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    /// Waits for a span of this name, in this trace if one is named.
    pub(crate) fn wait_for(&self, name: &str, trace: Option<&str>) -> ReceivedSpan {
        let find = || {
            let mut spans = self.spans().into_iter();
            spans.find(|span| span.name == name && trace.is_none_or(|trace| span.trace == trace))
        };
        wait_until(&format!("a span `{name}` is received"), || find().is_some());
        find().unwrap()
    }
}

fn answer(
    stream: TcpStream,
    mode: ReceiverMode,
    spans: &Mutex<Vec<ReceivedSpan>>,
    heads: &Mutex<Vec<String>>,
) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
            break;
        }
        head.push_str(&line.to_lowercase());
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name == "content-length").then(|| value.trim().parse().ok())?
    });
    let mut body = vec![0; length.unwrap_or(0)];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    heads.lock().unwrap().push(head);
    let mut stream = stream;
    let reply: &[u8] = match mode {
        ReceiverMode::Accepts => {
            let request = ExportTraceServiceRequest::decode(&*body).unwrap();
            spans.lock().unwrap().extend(received(request));
            b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n"
        }
        ReceiverMode::Silent => {
            thread::park();
            return;
        }
        ReceiverMode::Garbage => b"\x00\xff nothing \r\n\r\n",
        ReceiverMode::Fails => {
            b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 3600\r\nContent-Length: 3\r\n\r\n\xff\xff\xff"
        }
    };
    let _ = stream.write_all(reply);
}

fn received(request: ExportTraceServiceRequest) -> Vec<ReceivedSpan> {
    let mut all = Vec::new();
    for of_resource in request.resource_spans {
        let resource = texts(&of_resource.resource.unwrap().attributes);
        let scopes = of_resource.scope_spans.into_iter();
        for span in scopes.flat_map(|scope| scope.spans) {
            all.push(received_span(&span, &resource));
        }
    }
    all
}

fn received_span(span: &Span, resource: &BTreeMap<String, String>) -> ReceivedSpan {
    ReceivedSpan {
        name: span.name.clone(),
        trace: hermes_config::to_hex(&span.trace_id),
        id: hermes_config::to_hex(&span.span_id),
        parent: hermes_config::to_hex(&span.parent_span_id),
        attributes: texts(&span.attributes),
        resource: resource.clone(),
    }
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |attribute: &KeyValue| match attribute.value.clone()?.value? {
        Value::StringValue(text) => Some(text),
        Value::IntValue(number) => Some(number.to_string()),
        Value::BoolValue(is_so) => Some(is_so.to_string()),
        Value::DoubleValue(number) => Some(number.to_string()),
        other => Some(format!("{other:?}")),
    };
    attributes
        .iter()
        .filter_map(|attribute| Some((attribute.key.clone(), text(attribute)?)))
        .collect()
}
