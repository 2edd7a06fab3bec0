//! Traces for an OpenTelemetry collector: whether spans are exported, where to, and how this process begins and ends it.
//!
//! Without an endpoint nothing here runs, and the log has no layer for spans. Spans are made by the libraries, see
//! `hermes_config::trace_context`; a thread of its own sends them, so that no request waits for a collector. The agents
//! of a Hub's tenants send theirs to the Hub, which has the collector's address and keys.

mod collector;
mod export;
mod relay;

use std::{
    collections::HashMap,
    env,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use hermes_config::{
    Secret,
    trace_context::{self, ExportCounts, RelayError, TraceContext, TraceExport},
};
use hermes_hub::settings::TelemetrySettings;
use opentelemetry::{
    Context,
    propagation::TextMapPropagator as _,
    trace::{TraceContextExt as _, TracerProvider as _},
};
use opentelemetry_otlp::{Protocol, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::{
    Resource,
    propagation::TraceContextPropagator,
    trace::{BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider},
};
use tracing_opentelemetry::{OpenTelemetryLayer, OpenTelemetrySpanExt as _};
use tracing_subscriber::{Layer, filter::filter_fn, registry::LookupSpan};

use self::{
    collector::{CollectorClient, Destination},
    export::{CountedExporter, LimitedProcessor, SpanCounters},
    relay::SpanRelay,
};
use crate::private_routes::PrivateRoutes;

/// Set by a Hub for its tenants' agents: spans go to the Hub.
pub(crate) const TO_HUB_VARIABLE: &str = "HERMES_TRACES_TO_HUB";

/// How long the last spans may take to be sent.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
/// Of one batch, with its repeats.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long spans wait for others.
const BATCH_DELAY: Duration = Duration::from_secs(1);
const BATCH_DELAY_VARIABLE: &str = "OTEL_BSP_SCHEDULE_DELAY";
const SAMPLER_VARIABLE: &str = "OTEL_TRACES_SAMPLER";
const SAMPLER_ARGUMENT_VARIABLE: &str = "OTEL_TRACES_SAMPLER_ARG";
const MAX_QUEUED_SPANS: usize = 2048;

static EXPORT: OnceLock<Arc<SpanExport>> = OnceLock::new();
/// The way to the Hub, once this process has its key.
static HUB_ROUTES: OnceLock<PrivateRoutes> = OnceLock::new();

/// What exports the spans of this process.
struct SpanExport {
    provider: SdkTracerProvider,
    propagator: TraceContextPropagator,
    tally: Arc<SpanCounters>,
    relay: SpanRelay,
    sample_ratio: Option<f64>,
}

/// Exports spans of a home's process, if the standard variables or its Hub want it.
pub(crate) fn start_for_home(service: &'static str) -> Result<(), String> {
    if env::var_os(TO_HUB_VARIABLE).is_some() {
        return start(Destination::Hub(&HUB_ROUTES), None, service, None);
    }
    start_with(&TelemetrySettings::default(), service)
}

/// Exports spans, if the settings or the standard variables name an endpoint.
pub(crate) fn start_with(
    settings: &TelemetrySettings,
    service: &'static str,
) -> Result<(), String> {
    let is_disabled = env::var("OTEL_SDK_DISABLED").is_ok_and(|it| it.eq_ignore_ascii_case("true"))
        || env::var("OTEL_TRACES_EXPORTER").is_ok_and(|it| it == "none");
    if is_disabled {
        return Ok(());
    }
    let destination = match &settings.endpoint {
        Some(endpoint) => Some(
            Destination::collector(endpoint)
                .map_err(|reason| format!("setting `telemetry.endpoint`: {reason}"))?,
        ),
        None => Destination::from_variables()?,
    };
    let Some(destination) = destination else {
        return Ok(());
    };
    let destination = destination.with_headers(settings.headers.as_ref())?;
    let service_name = settings.service_name.as_deref();
    start(destination, service_name, service, settings.sample_ratio)
}

/// The spans of a tenant's agent go to the Hub with this key.
pub(crate) fn connect_hub(key: Option<&Secret<String>>) {
    if env::var_os(TO_HUB_VARIABLE).is_some()
        && let Some(routes) = key.and_then(PrivateRoutes::from_environment)
    {
        let _ = HUB_ROUTES.set(routes);
    }
}

/// The variables by which a tenant's agent does as its Hub does.
pub(crate) fn tenant_variables() -> Vec<(&'static str, String)> {
    let Some(export) = EXPORT.get() else {
        return Vec::new();
    };
    let mut variables = vec![(TO_HUB_VARIABLE, "1".to_owned())];
    if let Some(ratio) = export.sample_ratio {
        variables.push((SAMPLER_VARIABLE, "parentbased_traceidratio".to_owned()));
        variables.push((SAMPLER_ARGUMENT_VARIABLE, ratio.to_string()));
    } else {
        for name in [SAMPLER_VARIABLE, SAMPLER_ARGUMENT_VARIABLE] {
            variables.extend(env::var(name).ok().map(|value| (name, value)));
        }
    }
    variables
}

fn start(
    destination: Destination,
    service_name: Option<&str>,
    default_service: &'static str,
    sample_ratio: Option<f64>,
) -> Result<(), String> {
    let tally = Arc::new(SpanCounters::default());
    let exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_http()
        .with_http_client(CollectorClient::new(destination.clone()))
        .with_endpoint(destination.url())
        .with_protocol(Protocol::HttpBinary)
        .with_timeout(EXPORT_TIMEOUT)
        .build()
        .map_err(|error| format!("spans cannot be exported: {error}"))?;
    let mut batches = BatchConfigBuilder::default().with_max_queue_size(MAX_QUEUED_SPANS);
    if env::var_os(BATCH_DELAY_VARIABLE).is_none() {
        batches = batches.with_scheduled_delay(BATCH_DELAY);
    }
    let processor = BatchSpanProcessor::new(
        CountedExporter::new(exporter, tally.clone()),
        batches.build(),
    );
    let mut provider = SdkTracerProvider::builder()
        .with_span_processor(LimitedProcessor::new(
            processor,
            MAX_QUEUED_SPANS,
            tally.clone(),
        ))
        .with_resource(resource(service_name, default_service));
    if let Some(ratio) = sample_ratio {
        let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(ratio)));
        provider = provider.with_sampler(sampler);
    }
    let export = Arc::new(SpanExport {
        provider: provider.build(),
        propagator: TraceContextPropagator::new(),
        relay: SpanRelay::new(CollectorClient::new(destination), tally.clone()),
        tally,
        sample_ratio,
    });
    if EXPORT.set(export.clone()).is_ok() {
        trace_context::install(Box::new(InstalledExport(export)));
    }
    Ok(())
}

/// Who sends the spans. The standard variables say it where the settings do not.
fn resource(service_name: Option<&str>, default_service: &'static str) -> Resource {
    let builder = Resource::builder();
    let is_named = env::var_os("OTEL_SERVICE_NAME").is_some()
        || env::var("OTEL_RESOURCE_ATTRIBUTES").is_ok_and(|it| it.contains("service.name="));
    let builder = match service_name {
        Some(name) => builder.with_service_name(name.to_owned()),
        None if is_named => builder,
        None => builder.with_service_name(default_service),
    };
    let version = opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    builder.with_attribute(version).build()
}

/// The layer that makes spans of OpenTelemetry, if they are exported.
pub(crate) fn layer<S>() -> Option<impl Layer<S>>
where
    S: tracing::Subscriber + for<'span> LookupSpan<'span>,
{
    let export = EXPORT.get()?;
    let layer = OpenTelemetryLayer::new(export.provider.tracer("hermes"))
        .with_location(false)
        .with_threads(false)
        .with_level(false)
        .with_target(false)
        .with_tracked_inactivity(false);
    let filter = filter_fn(|metadata| metadata.target() == trace_context::TARGET);
    Some(layer.with_filter(filter))
}

/// Sends what is left. For the end of the process.
pub(crate) fn stop() {
    let Some(export) = EXPORT.get() else {
        return;
    };
    let deadline = Instant::now() + FLUSH_TIMEOUT;
    // Both send at the same time: each has a thread.
    export.relay.close();
    let _ = export.provider.shutdown_with_timeout(FLUSH_TIMEOUT);
    export.relay.wait_until_sent(deadline);
}

struct InstalledExport(Arc<SpanExport>);

impl TraceExport for InstalledExport {
    fn current(&self) -> Option<TraceContext> {
        let context = Context::current();
        let span = context.span();
        if !span.span_context().is_valid() {
            return None;
        }
        let mut headers: HashMap<String, String> = HashMap::new();
        self.0.propagator.inject_context(&context, &mut headers);
        let state = headers.get(trace_context::TRACESTATE);
        TraceContext::parse(
            headers.get(trace_context::TRACEPARENT)?,
            state.map(String::as_str),
        )
    }

    fn set_parent(&self, span: &tracing::Span, parent: &TraceContext) {
        let mut headers = HashMap::new();
        let value = parent.traceparent().to_owned();
        headers.insert(trace_context::TRACEPARENT.to_owned(), value);
        if let Some(state) = parent.tracestate() {
            headers.insert(trace_context::TRACESTATE.to_owned(), state.to_owned());
        }
        let context = self
            .0
            .propagator
            .extract_with_context(&Context::new(), &headers);
        // A span that is not recorded has no parent to set.
        let _ = span.set_parent(context);
    }

    fn counts(&self) -> ExportCounts {
        self.0.tally.counts()
    }

    fn relay(&self, tenant: &str, batch: &[u8]) -> Result<(), RelayError> {
        self.0.relay.send(tenant, batch)
    }
}
