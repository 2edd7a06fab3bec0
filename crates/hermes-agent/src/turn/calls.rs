//! Runs the calls of one message: in order, in parallel where allowed, at most eight at once.

use std::{
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::stream::{FuturesUnordered, StreamExt};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tracing::Instrument as _;

use super::{Surface, Turn, TurnEvent, trace};
use crate::{
    message::ToolCall,
    tools::{
        tool::{Concurrency, ToolContext, ToolOutput},
        toolbox::Toolbox,
    },
};

/// How many calls run at once.
const MAX_PARALLEL_CALLS: usize = 8;
/// How long a cancelled call may take to end.
const CANCEL_GRACE: Duration = Duration::from_millis(800);

pub(super) struct CallBatch<'a> {
    turn: &'a Turn<'a>,
    /// The resolved calls, with the ids of the model's calls.
    calls: Vec<ToolCall>,
    prepared: Vec<PreparedCall>,
    /// Progress lines of all calls; only the turn's own task uses the surface.
    lines: mpsc::UnboundedReceiver<ProgressLine>,
}

struct PreparedCall {
    /// `Err` says why they cannot be parsed.
    arguments: Result<Map<String, Value>, String>,
    context: ToolContext,
    concurrency: Concurrency,
}

/// Who said it, and what.
type ProgressLine = (Arc<str>, String);

impl<'a> CallBatch<'a> {
    pub(super) fn new(turn: &'a Turn<'a>, calls: &[ToolCall]) -> Self {
        let (sender, lines) = mpsc::unbounded_channel();
        let calls: Vec<ToolCall> = calls
            .iter()
            .map(|call| turn.toolbox.resolve_call(call).into_owned())
            .collect();
        let prepared = calls
            .iter()
            .map(|call| prepare_call(turn, call, &sender))
            .collect();
        Self {
            turn,
            calls,
            prepared,
            lines,
        }
    }

    /// The longest ranges of calls that may run in parallel; all others run alone.
    pub(super) fn segments(&self) -> Vec<Range<usize>> {
        let mut segments: Vec<Range<usize>> = Vec::new();
        for (index, call) in self.prepared.iter().enumerate() {
            match segments.last_mut() {
                Some(last)
                    if self.prepared[last.clone()]
                        .iter()
                        .all(|other| call.concurrency.can_run_with(&other.concurrency)) =>
                {
                    last.end = index + 1;
                }
                _ => segments.push(index..index + 1),
            }
        }
        segments
    }

    /// The resolved calls of a segment.
    pub(super) fn resolved_calls(&self, segment: Range<usize>) -> &[ToolCall] {
        &self.calls[segment]
    }

    /// Runs one segment and returns its outputs in the order of the calls. Calls that have not started when the user
    /// interrupts never start.
    pub(super) async fn run(
        &mut self,
        segment: Range<usize>,
        surface: &mut dyn Surface,
    ) -> Vec<ToolOutput> {
        let Self {
            turn,
            calls,
            prepared,
            lines,
        } = self;
        let turn = *turn;
        let (calls, prepared) = (&calls[segment.clone()], &prepared[segment]);
        let mut outputs: Vec<Option<ToolOutput>> = vec![None; calls.len()];
        let mut waiting = 0..calls.len();
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < MAX_PARALLEL_CALLS
                && !turn.context.cancel.is_cancelled()
                && let Some(index) = waiting.next()
            {
                surface.show(TurnEvent::CallStarted(calls[index].clone()));
                let (name, ready) = (&calls[index].name, &prepared[index]);
                let span = trace::call_span(name, &ready.context.call_id);
                let call = run_call(turn.toolbox, name, ready).instrument(span.clone());
                running.push(async move {
                    let done = call.await;
                    trace::record_output(&span, &done.0);
                    (index, done)
                });
            }
            tokio::select! {
                // Progress lines come before the end of their call.
                biased;
                Some((id, line)) = lines.recv() => {
                    surface.show(TurnEvent::CallProgress { id, line });
                }
                done = running.next() => {
                    let Some((index, (output, took))) = done else { break };
                    let call = calls[index].clone();
                    surface.show(TurnEvent::CallEnded { call, output: output.clone(), took });
                    outputs[index] = Some(output);
                }
            }
        }
        let never_begun = || ToolOutput::error("not run: interrupted by the user");
        outputs
            .into_iter()
            .map(|output| output.unwrap_or_else(never_begun))
            .collect()
    }
}

fn prepare_call(
    turn: &Turn<'_>,
    call: &ToolCall,
    lines: &mpsc::UnboundedSender<ProgressLine>,
) -> PreparedCall {
    let id: Arc<str> = call.id.as_str().into();
    let (lines, line_id) = (lines.clone(), id.clone());
    let context = ToolContext {
        call_id: id,
        cancel: turn.context.cancel.child_token(),
        progress: Arc::new(move |line: &str| {
            // The turn may have ended.
            let _ = lines.send((line_id.clone(), line.to_owned()));
        }),
        ..turn.context.clone()
    };
    let arguments = call.parse_arguments().map_err(|error| error.to_string());
    let concurrency = match &arguments {
        Ok(arguments) => turn.toolbox.concurrency(&call.name, arguments, &context),
        Err(_) => Concurrency::Exclusive,
    };
    PreparedCall {
        arguments,
        context,
        concurrency,
    }
}

async fn run_call(toolbox: &Toolbox, name: &str, ready: &PreparedCall) -> (ToolOutput, Duration) {
    let began = Instant::now();
    let arguments = match &ready.arguments {
        Ok(arguments) => arguments.clone(),
        Err(reason) => {
            let text = format!("the arguments of `{name}` are not a JSON object: {reason}");
            return (ToolOutput::error(text), began.elapsed());
        }
    };
    let late = async {
        ready.context.cancel.cancelled().await;
        tokio::time::sleep(CANCEL_GRACE).await;
    };
    let output = tokio::select! {
        output = toolbox.call(name, arguments, &ready.context) => output,
        // A tool that does not listen is dropped, and with it what it started.
        () = late => ToolOutput::error("interrupted by the user before it ended"),
    };
    (output, began.elapsed())
}
