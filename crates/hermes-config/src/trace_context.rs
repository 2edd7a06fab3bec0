//! Trace contexts of the W3C: where a request belongs in a trace, as `traceparent` and `tracestate` say it.
//!
//! Libraries make spans with [`traced_span!`](crate::traced_span) and pass contexts on. The program that exports spans
//! installs a [`TraceExport`]. Without one there are no spans and no contexts: nothing is read and nothing is sent.
//! Attributes of spans are names, sizes, ids, durations and kinds of errors; never secrets, prompts or arguments.

use std::sync::OnceLock;

pub use tracing;
use tracing::Span;

/// The target of spans that are exported. Log lines do not show them.
pub const TARGET: &str = "hermes_trace";

pub const TRACEPARENT: &str = "traceparent";
pub const TRACESTATE: &str = "tracestate";

/// Longer ones are dropped, as the standard allows.
const MAX_TRACESTATE_BYTES: usize = 512;

static EXPORT: OnceLock<Box<dyn TraceExport>> = OnceLock::new();

/// Exports the spans of this process.
pub trait TraceExport: Send + Sync {
    /// The context of the span that is entered here.
    fn current(&self) -> Option<TraceContext>;

    /// Makes a span continue a trace from elsewhere. It must not have been entered.
    fn set_parent(&self, span: &Span, parent: &TraceContext);

    fn counts(&self) -> ExportCounts;

    /// Takes a batch of spans that a tenant's agent has encoded.
    fn relay(&self, tenant: &str, batch: &[u8]) -> Result<(), RelayError>;
}

/// What became of the spans of this process, and of those of its tenants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExportCounts {
    pub exported: u64,
    pub dropped: u64,
}

/// Why a batch of a tenant is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RelayError {
    #[error("the batch is not an export request of OTLP")]
    Malformed,
    #[error("too many batches are waiting")]
    Full,
}

/// From now on spans are made. For the program's start, once.
pub fn install(export: Box<dyn TraceExport>) {
    let _ = EXPORT.set(export);
}

/// The installed export, if spans are exported.
pub fn export() -> Option<&'static dyn TraceExport> {
    EXPORT.get().map(AsRef::as_ref)
}

/// Whether spans are exported.
pub fn is_on() -> bool {
    EXPORT.get().is_some()
}

/// A place in a trace, as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    traceparent: String,
    tracestate: Option<String>,
}

impl TraceContext {
    /// Reads what a caller sends. A malformed `traceparent` is nobody's parent; a malformed `tracestate` is dropped.
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let traceparent = traceparent.trim();
        let is_valid = is_traceparent(traceparent);
        is_valid.then(|| Self {
            traceparent: traceparent.to_owned(),
            tracestate: tracestate
                .filter(|state| is_tracestate(state))
                .map(Into::into),
        })
    }

    /// What a caller sends, unless spans are not exported.
    pub fn receive(traceparent: Option<&str>, tracestate: Option<&str>) -> Option<Self> {
        if is_on() {
            Self::parse(traceparent?, tracestate)
        } else {
            None
        }
    }

    /// The context of the span that is entered here, for a request to somebody else.
    pub fn current() -> Option<Self> {
        export()?.current()
    }

    pub fn traceparent(&self) -> &str {
        &self.traceparent
    }

    pub fn tracestate(&self) -> Option<&str> {
        self.tracestate.as_deref()
    }

    /// Makes a span that has not been entered continue this trace.
    pub fn adopt(&self, span: &Span) {
        if let Some(export) = export() {
            export.set_parent(span, self);
        }
    }
}

/// Version 00 has four fields; later versions may have more.
fn is_traceparent(text: &str) -> bool {
    let is_hex = |field: &str, digits: usize| {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        field.len() == digits && field.bytes().all(is_digit)
    };
    let is_id = |field: &str, digits: usize| {
        is_hex(field, digits) && field.bytes().any(|byte| byte != b'0')
    };
    let mut fields = text.splitn(5, '-');
    let mut next = || fields.next().unwrap_or_default();
    let (version, trace, parent, flags) = (next(), next(), next(), next());
    let has_more = fields.next().is_some();
    is_hex(version, 2)
        && version != "ff"
        && is_id(trace, 32)
        && is_id(parent, 16)
        && is_hex(flags, 2)
        && (version != "00" || !has_more)
}

fn is_tracestate(text: &str) -> bool {
    let is_printable = |byte: u8| (0x20..0x7f).contains(&byte);
    !text.is_empty() && text.len() <= MAX_TRACESTATE_BYTES && text.bytes().all(is_printable)
}

/// A span that is exported, if spans are: made as with `tracing::info_span!`. Otherwise none, at the cost of a load.
#[macro_export]
macro_rules! traced_span {
    ($($member:tt)*) => {
        if $crate::trace_context::is_on() {
            $crate::trace_context::tracing::info_span!(
                target: $crate::trace_context::TARGET, $($member)*
            )
        } else {
            $crate::trace_context::tracing::Span::none()
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_valid_traceparent_is_kept_as_it_is() {
        let context = TraceContext::parse(&format!(" {PARENT} "), Some("vendor=1")).unwrap();
        assert_eq!(context.traceparent(), PARENT);
        assert_eq!(context.tracestate(), Some("vendor=1"));
    }

    #[test]
    fn a_later_version_may_have_more_fields() {
        let later = format!("cc{}-what-the-future-holds", &PARENT[2..]);
        assert!(TraceContext::parse(&later, None).is_some());
    }

    #[test]
    fn malformed_parents_are_ignored() {
        for wrong in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
            "00_0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331_01",
        ] {
            assert_eq!(TraceContext::parse(wrong, None), None, "{wrong}");
        }
    }

    #[test]
    fn a_state_that_cannot_be_sent_on_is_dropped() {
        for state in ["", "a=\u{7}", "a=ä", &"a".repeat(600)] {
            let context = TraceContext::parse(PARENT, Some(state)).unwrap();
            assert_eq!(context.tracestate(), None, "{state}");
        }
    }

    #[test]
    fn without_an_export_there_are_no_spans_and_no_contexts() {
        assert!(traced_span!("run", id = 1).is_none());
        assert_eq!(TraceContext::current(), None);
        assert_eq!(TraceContext::receive(Some(PARENT), None), None);
    }
}
