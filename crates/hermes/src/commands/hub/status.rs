//! `hermes hub status`: whether a Hub is ready; and of this machine's, also when it does not answer. `hermes hub node …`:
//! the nodes that share its database.

use std::{
    fs,
    io::{Read as _, Seek as _, SeekFrom},
    path::Path,
};

use hermes_hub::{settings::Settings, storage::data_dir::DataDir};
use serde_json::{Value, json};

use super::{
    client::{Column, HubCall, HubClient, plain_text},
    serve::local_sources,
};
use crate::{
    cli::{HubNodeArgs, HubNodeCommand, HubStatusArgs},
    context::Context,
    embedded_hub,
    failure::{Failure, FailureKind},
    output::printable,
};

/// The end of the log that is looked at.
const LOG_BYTES: u64 = 256 << 10;

pub(super) fn run(context: &Context, args: &HubStatusArgs) -> Result<(), Failure> {
    if args.local {
        return show_local(context, args);
    }
    let hub = &HubClient::new(context, &args.hub)?;
    let answer = match hub.call(&HubCall::new("readyz")) {
        Err(failure) if failure.kind == FailureKind::Unavailable && hub.is_of_this_machine() => {
            return Err(explain(failure, args));
        }
        answer => answer?,
    };
    let output = hub.output();
    if output.is_json() {
        return Ok(());
    }
    output.line(format!(
        "The Hub at {} is {}.",
        hub.address(),
        answer.text("/status")
    ));
    // Who has no token may know that it is ready, and no more.
    if let Ok(version) = hub.call_quietly(&HubCall::new("version")) {
        for (name, member) in [
            ("version", "version"),
            ("node", "node"),
            ("since", "startedAt"),
            ("features", "features"),
        ] {
            output.line(format!("{name}: {}", plain_text(&version.value[member])));
        }
    }
    Ok(())
}

/// What is known of the Hub of this machine without asking it.
struct LocalHub {
    settings: Settings,
    /// The process that has its data, as it calls itself.
    holder: Option<String>,
    last_problem: Option<String>,
}

impl LocalHub {
    fn find(args: &HubStatusArgs) -> Result<Self, Failure> {
        let settings = embedded_hub::load_settings(&local_sources(&args.data))?;
        let holder = DataDir::find_holder(&settings.data_dir)
            .map_err(|error| Failure::failed(error.to_string()))?;
        let last_problem = read_last_problem(&settings.data_dir.join("logs").join("hub.log"));
        Ok(Self {
            settings,
            holder,
            last_problem,
        })
    }

    fn describe(&self) -> String {
        let data = self.settings.data_dir.display();
        match &self.holder {
            Some(holder) => format!("A Hub has the data in `{data}`: {}.", printable(holder)),
            None => format!("No Hub has the data in `{data}`."),
        }
    }
}

fn show_local(context: &Context, args: &HubStatusArgs) -> Result<(), Failure> {
    let local = LocalHub::find(args)?;
    let output = context.output;
    let shown = json!({
        "running": local.holder.is_some(), "holder": local.holder, "dataDir": local.settings.data_dir,
        "listen": local.settings.listen, "publicUrl": local.settings.public_url, "lastProblem": local.last_problem,
    });
    output.line(local.describe());
    output.line(format!("listens on: {}", local.settings.listen));
    if let Some(problem) = &local.last_problem {
        output.line(format!("last problem: {problem}"));
    }
    if local.holder.is_some() {
        output.json(shown);
        return Ok(());
    }
    let message = "no Hub runs here";
    let failure = Failure::new(FailureKind::Unavailable, message)
        .hint("`hermes hub serve` or `hermes up` starts one");
    if output.is_json() {
        output.json_failure(message, shown);
        return Err(failure.mark_printed());
    }
    Err(failure)
}

/// Adds what this machine knows of a Hub that does not answer.
fn explain(failure: Failure, args: &HubStatusArgs) -> Failure {
    let Ok(local) = LocalHub::find(args) else {
        return failure;
    };
    let failure = failure.hint(local.describe());
    match local.last_problem {
        Some(problem) => failure.hint(format!("the last problem in its log: {problem}")),
        None => failure,
    }
}

/// The last line of a log that is a warning or an error, with its time.
fn read_last_problem(log: &Path) -> Option<String> {
    let mut file = fs::File::open(log).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_BYTES)))
        .ok()?;
    let mut end = Vec::new();
    file.take(LOG_BYTES).read_to_end(&mut end).ok()?;
    let end = String::from_utf8_lossy(&end);
    let mut entries = end.lines().rev().filter_map(|line| {
        let entry: Value = serde_json::from_str(line).ok()?;
        matches!(entry["level"].as_str(), Some("WARN" | "ERROR")).then_some(entry)
    });
    let entry = entries.next()?;
    let mut text = format!(
        "{} {}",
        plain_text(&entry["time"]),
        plain_text(&entry["message"])
    );
    for reason in ["error", "problem", "reason"] {
        if let Some(reason) = entry.get(reason).filter(|reason| !reason.is_null()) {
            text = format!("{text}: {}", plain_text(reason));
        }
    }
    Some(printable(&text).into_owned())
}

const NODE_COLUMNS: &[Column] = &[
    ("ID", "/id"),
    ("STATE", "/state"),
    ("TENANTS", "/tenants"),
    ("CAPACITY", "/capacity"),
    ("VERSION", "/version"),
    ("STARTED", "/startedAt"),
    ("SEEN", "/seenAt"),
];

/// The nodes of a Hub that share a database.
pub(super) fn run_node(context: &Context, args: HubNodeArgs) -> Result<(), Failure> {
    let hub = &HubClient::new(context, &args.hub)?;
    match args.command {
        HubNodeCommand::List => {
            let answer = hub.call(&HubCall::new("list_nodes"))?;
            hub.show_list(&answer, "nodes", NODE_COLUMNS, "There are no nodes.");
            Ok(())
        }
        HubNodeCommand::Drain { node, sure } => {
            let question = format!(
                "Have `{node}` hand its tenants over? It takes no others until it starts again."
            );
            hub.confirm(sure.yes, &question)?;
            hub.call(&HubCall::new("drain_node").with("node_id", node.as_str()))?;
            hub.output()
                .note(format!("`{node}` hands its tenants over."));
            Ok(())
        }
    }
}
