//! Spans of tenants' agents on their way through the Hub: each batch gets the tenant it came from, waits in a bounded
//! queue, and is sent by a thread that starts with the first one.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use bytes::Bytes;
use hermes_config::{sync::Mutex, trace_context::RelayError};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{AnyValue, KeyValue, any_value::Value},
};
use prost::Message as _;

use super::{collector::CollectorClient, export::SpanCounters};

/// The attribute that says whose agent made a span.
const TENANT_ATTRIBUTE: &str = "hermes.tenant.id";
const MAX_WAITING_BATCHES: usize = 64;
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Sends batches of tenants on.
pub(super) struct SpanRelay {
    client: Arc<CollectorClient>,
    tally: Arc<SpanCounters>,
    worker: Mutex<RelayWorker>,
}

enum RelayWorker {
    NotStarted,
    Running(SyncSender<TenantBatch>, JoinHandle<()>),
    Closing(JoinHandle<()>),
    Closed,
}

struct TenantBatch {
    body: Bytes,
    spans: usize,
}

impl SpanRelay {
    pub(super) fn new(client: CollectorClient, tally: Arc<SpanCounters>) -> Self {
        Self {
            client: Arc::new(client),
            tally,
            worker: Mutex::new(RelayWorker::NotStarted),
        }
    }

    /// Takes a batch that an agent has encoded.
    pub(super) fn send(&self, tenant: &str, batch: &[u8]) -> Result<(), RelayError> {
        let batch = stamp_tenant(tenant, batch)?;
        let spans = batch.spans;
        let mut worker = self.worker.lock();
        if matches!(*worker, RelayWorker::NotStarted) {
            *worker = self.start_worker().ok_or(RelayError::Full)?;
        }
        let sent = match &*worker {
            RelayWorker::Running(sender, _) => sender.try_send(batch),
            _ => Err(TrySendError::Disconnected(batch)),
        };
        drop(worker);
        sent.map_err(|_| {
            self.tally.count_dropped(spans, "the queue is full");
            RelayError::Full
        })
    }

    fn start_worker(&self) -> Option<RelayWorker> {
        let (sender, receiver) = sync_channel(MAX_WAITING_BATCHES);
        let (client, tally) = (self.client.clone(), self.tally.clone());
        let thread = std::thread::Builder::new()
            .name("trace-relay".into())
            .spawn(move || send_batches(&client, &tally, &receiver))
            .ok()?;
        Some(RelayWorker::Running(sender, thread))
    }

    /// Takes no more batches. Those that wait are still sent.
    pub(super) fn close(&self) {
        let mut worker = self.worker.lock();
        *worker = match std::mem::replace(&mut *worker, RelayWorker::Closed) {
            RelayWorker::Running(_, thread) => RelayWorker::Closing(thread),
            other => other,
        };
    }

    /// Waits for the batches that were left, but not for long.
    pub(super) fn wait_until_sent(&self, deadline: Instant) {
        let RelayWorker::Closing(thread) =
            std::mem::replace(&mut *self.worker.lock(), RelayWorker::Closed)
        else {
            return;
        };
        while !thread.is_finished() {
            if Instant::now() >= deadline {
                return;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

fn send_batches(client: &CollectorClient, tally: &SpanCounters, batches: &Receiver<TenantBatch>) {
    for batch in batches {
        match client.post(batch.body) {
            Ok(status) if status.is_success() => tally.count_exported(batch.spans),
            Ok(status) => {
                let reason = format!("the collector answered {status}");
                tally.count_dropped(batch.spans, &reason);
            }
            Err(_) => tally.count_dropped(batch.spans, "the collector cannot be reached"),
        }
    }
}

/// Says on each resource whose agent it is. What the agent says about that does not count.
fn stamp_tenant(tenant: &str, batch: &[u8]) -> Result<TenantBatch, RelayError> {
    let mut request =
        ExportTraceServiceRequest::decode(batch).map_err(|_| RelayError::Malformed)?;
    let mut spans = 0;
    for of_resource in &mut request.resource_spans {
        let scopes = of_resource.scope_spans.iter();
        spans += scopes.map(|scope| scope.spans.len()).sum::<usize>();
        let attributes = &mut of_resource.resource.get_or_insert_default().attributes;
        attributes.retain(|attribute| attribute.key != TENANT_ATTRIBUTE);
        attributes.push(KeyValue {
            key: TENANT_ATTRIBUTE.to_owned(),
            value: Some(AnyValue {
                value: Some(Value::StringValue(tenant.to_owned())),
            }),
            ..KeyValue::default()
        });
    }
    Ok(TenantBatch {
        body: request.encode_to_vec().into(),
        spans,
    })
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::{
        resource::v1::Resource,
        trace::v1::{ResourceSpans, ScopeSpans, Span},
    };

    use super::*;

    fn attribute(key: &str, value: &str) -> KeyValue {
        KeyValue {
            key: key.into(),
            value: Some(AnyValue {
                value: Some(Value::StringValue(value.into())),
            }),
            ..KeyValue::default()
        }
    }

    #[test]
    fn the_hub_says_whose_spans_they_are() {
        let request = ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(Resource {
                    attributes: vec![
                        attribute("service.name", "hermes-agent"),
                        attribute(TENANT_ATTRIBUTE, "another"),
                    ],
                    ..Resource::default()
                }),
                scope_spans: vec![ScopeSpans {
                    spans: vec![Span::default(), Span::default()],
                    ..ScopeSpans::default()
                }],
                ..ResourceSpans::default()
            }],
        };
        let stamped = stamp_tenant("mine", &request.encode_to_vec()).unwrap();
        assert_eq!(stamped.spans, 2);
        let decoded = ExportTraceServiceRequest::decode(stamped.body).unwrap();
        let attributes = &decoded.resource_spans[0]
            .resource
            .as_ref()
            .unwrap()
            .attributes;
        assert_eq!(
            attributes,
            &[
                attribute("service.name", "hermes-agent"),
                attribute(TENANT_ATTRIBUTE, "mine"),
            ]
        );
    }

    #[test]
    fn what_is_no_batch_is_refused() {
        assert_eq!(
            stamp_tenant("mine", b"{}").err(),
            Some(RelayError::Malformed)
        );
    }
}
