//! The queue of spans and its count: what is sent, and what is dropped when a collector is slow or gone.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use hermes_config::{sync::Mutex, trace_context::ExportCounts};
use opentelemetry::Context;
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{Span, SpanData, SpanExporter, SpanProcessor},
};

/// A collector that is gone is mentioned this often.
const WARNING_INTERVAL: Duration = Duration::from_mins(1);

/// What became of spans.
#[derive(Debug, Default)]
pub(super) struct SpanCounters {
    queued: AtomicUsize,
    exported: AtomicU64,
    dropped: AtomicU64,
    warned_at: Mutex<Option<Instant>>,
}

impl SpanCounters {
    pub(super) fn counts(&self) -> ExportCounts {
        ExportCounts {
            exported: self.exported.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
        }
    }

    pub(super) fn count_exported(&self, spans: usize) {
        self.exported.fetch_add(spans as u64, Ordering::Relaxed);
    }

    /// Counts lost spans, and says so once a minute.
    pub(super) fn count_dropped(&self, spans: usize, reason: &str) {
        let dropped = self.dropped.fetch_add(spans as u64, Ordering::Relaxed) + spans as u64;
        if self.is_warning_due(Instant::now()) {
            tracing::warn!(dropped, reason, "spans dropped");
        }
    }

    fn is_warning_due(&self, now: Instant) -> bool {
        let mut warned_at = self.warned_at.lock();
        let is_due = warned_at.is_none_or(|then| now.duration_since(then) >= WARNING_INTERVAL);
        if is_due {
            *warned_at = Some(now);
        }
        is_due
    }
}

/// Lets no more than so many spans wait. The next ones are dropped: a span never waits for room.
#[derive(Debug)]
pub(super) struct LimitedProcessor<P> {
    inner: P,
    limit: usize,
    tally: Arc<SpanCounters>,
}

impl<P> LimitedProcessor<P> {
    pub(super) fn new(inner: P, limit: usize, tally: Arc<SpanCounters>) -> Self {
        Self {
            inner,
            limit,
            tally,
        }
    }
}

impl<P: SpanProcessor> SpanProcessor for LimitedProcessor<P> {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.inner.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        if self.tally.queued.fetch_add(1, Ordering::AcqRel) >= self.limit {
            self.tally.queued.fetch_sub(1, Ordering::AcqRel);
            self.tally.count_dropped(1, "the queue is full");
            return;
        }
        self.inner.on_end(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

/// Counts what an exporter sends and what it cannot.
#[derive(Debug)]
pub(super) struct CountedExporter<E> {
    inner: E,
    tally: Arc<SpanCounters>,
}

impl<E> CountedExporter<E> {
    pub(super) fn new(inner: E, tally: Arc<SpanCounters>) -> Self {
        Self { inner, tally }
    }
}

impl<E: SpanExporter> SpanExporter for CountedExporter<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let outcome = self.inner.export(batch).await;
        // They count as queued until they are sent, so that a slow collector fills the queue and not the memory.
        self.tally.queued.fetch_sub(spans, Ordering::AcqRel);
        match &outcome {
            Ok(()) => self.tally.count_exported(spans),
            Err(error) => self.tally.count_dropped(spans, &error.to_string()),
        }
        outcome
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_counted_each_and_mentioned_once_a_minute() {
        let tally = SpanCounters::default();
        let start = Instant::now();
        assert!(tally.is_warning_due(start));
        assert!(!tally.is_warning_due(start + Duration::from_secs(59)));
        assert!(tally.is_warning_due(start + Duration::from_mins(1)));
        tally.count_dropped(3, "gone");
        tally.count_dropped(2, "gone");
        tally.count_exported(7);
        let counts = tally.counts();
        assert_eq!((counts.exported, counts.dropped), (7, 5));
    }

    #[derive(Debug)]
    struct NoExport;

    impl SpanProcessor for NoExport {
        fn on_start(&self, _: &mut Span, _: &Context) {}

        fn on_end(&self, _: SpanData) {}

        fn force_flush(&self) -> OTelSdkResult {
            Ok(())
        }

        fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
            Ok(())
        }
    }

    #[test]
    fn a_full_queue_drops_what_comes_next() {
        use opentelemetry::trace::{Tracer as _, TracerProvider as _};
        let tally = Arc::new(SpanCounters::default());
        let processor = LimitedProcessor::new(NoExport, 3, tally.clone());
        let provider = opentelemetry_sdk::trace::SdkTracerProvider::builder()
            .with_span_processor(processor)
            .build();
        let tracer = provider.tracer("test");
        for _ in 0..5 {
            drop(tracer.start("span"));
        }
        assert_eq!(tally.counts().dropped, 2);
        assert_eq!(tally.queued.load(Ordering::Relaxed), 3);
    }
}
