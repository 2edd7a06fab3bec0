//! Runs the calls of one message: in order, side by side where they may be, at most eight at once.

use std::{
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::stream::{FuturesUnordered, StreamExt};
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::{Surface, Turn, TurnEvent};
use crate::{
    message::ToolCall,
    tool::{Company, ToolContext, ToolOutput},
    toolbox::Toolbox,
};

/// How many calls run at once.
const AT_ONCE: usize = 8;
/// How long a call may take to notice that it was cancelled.
const GRACE: Duration = Duration::from_millis(800);

/// A call ready to run.
struct Prepared {
    /// `Err` says why they can not be read.
    arguments: Result<Map<String, Value>, String>,
    context: ToolContext,
    company: Company,
}

/// Who said it, and what.
type Line = (Arc<str>, String);

/// Runs all calls and returns their outputs in the order of the calls.
pub(super) async fn run(
    turn: &Turn<'_>,
    calls: &[ToolCall],
    surface: &mut dyn Surface,
) -> Vec<ToolOutput> {
    // Lines of progress from several calls meet here; only this task talks to the surface.
    let (lines, mut heard) = mpsc::unbounded_channel();
    let prepared: Vec<Prepared> = calls
        .iter()
        .map(|call| prepare(turn, call, &lines))
        .collect();
    let segments = segments(&prepared);
    let mut prepared: Vec<Option<Prepared>> = prepared.into_iter().map(Some).collect();
    let mut outputs: Vec<Option<ToolOutput>> = vec![None; calls.len()];
    for segment in segments {
        let mut waiting = segment;
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < AT_ONCE
                && let Some(index) = waiting.next()
                && let Some(ready) = prepared[index].take()
            {
                surface.show(TurnEvent::CallStarted(calls[index].clone()));
                let name = &calls[index].name;
                running.push(async move { (index, call(turn.toolbox, name, ready).await) });
            }
            tokio::select! {
                Some((id, line)) = heard.recv() => surface.show(TurnEvent::CallProgress { id, line }),
                done = running.next() => {
                    let Some((index, (output, took))) = done else { break };
                    let call = calls[index].clone();
                    surface.show(TurnEvent::CallEnded { call, output: output.clone(), took });
                    outputs[index] = Some(output);
                }
            }
        }
    }
    outputs
        .into_iter()
        .map(|output| output.unwrap_or_else(interrupted))
        .collect()
}

fn prepare(turn: &Turn<'_>, call: &ToolCall, lines: &mpsc::UnboundedSender<Line>) -> Prepared {
    let id: Arc<str> = call.id.as_str().into();
    let (lines, line_id) = (lines.clone(), id.clone());
    let context = ToolContext {
        call_id: id,
        cancel: turn.context.cancel.child_token(),
        progress: Arc::new(move |line: &str| {
            // The turn may have moved on.
            let _ = lines.send((line_id.clone(), line.to_owned()));
        }),
        ..turn.context.clone()
    };
    let arguments = call.parse_arguments().map_err(|error| error.to_string());
    let company = match &arguments {
        Ok(arguments) => turn.toolbox.company(&call.name, arguments, &context),
        Err(_) => Company::Alone,
    };
    Prepared {
        arguments,
        context,
        company,
    }
}

/// The longest runs of calls that may be in flight together; everything else is alone.
fn segments(prepared: &[Prepared]) -> Vec<Range<usize>> {
    let mut segments: Vec<Range<usize>> = Vec::new();
    for (index, call) in prepared.iter().enumerate() {
        match segments.last_mut() {
            Some(last)
                if prepared[last.clone()]
                    .iter()
                    .all(|other| call.company.mixes_with(&other.company)) =>
            {
                last.end = index + 1;
            }
            _ => segments.push(index..index + 1),
        }
    }
    segments
}

async fn call(toolbox: &Toolbox, name: &str, ready: Prepared) -> (ToolOutput, Duration) {
    let began = Instant::now();
    let arguments = match ready.arguments {
        Ok(arguments) => arguments,
        Err(reason) => {
            let text = format!("the arguments of `{name}` are no JSON object: {reason}");
            return (ToolOutput::error(text), began.elapsed());
        }
    };
    if ready.context.cancel.is_cancelled() {
        return (interrupted(), began.elapsed());
    }
    let late = async {
        ready.context.cancel.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    let output = tokio::select! {
        output = toolbox.call(name, arguments, &ready.context) => output,
        // A tool that does not listen is dropped, and with it what it started.
        () = late => interrupted(),
    };
    (output, began.elapsed())
}

fn interrupted() -> ToolOutput {
    ToolOutput::error("interrupted by the user before it ended")
}
