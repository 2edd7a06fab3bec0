//! Interrupts: nothing keeps running, and the history stays valid.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures::future::BoxFuture;
use hermes_agent::{
    message::Message,
    model::ModelEvent,
    tools::tool::{Concurrency, ToolContext, ToolOutput},
    turn::{TurnEnd, TurnEvent},
};
use serde_json::{Map, Value, json};

use super::{FunctionTool, ScriptedModel, Step, TurnFixture, call, echo};

#[tokio::test]
async fn what_was_shown_of_a_stopped_answer_is_kept() {
    let mut setup = TurnFixture::new(Vec::new());
    let cancel = setup.session.context.cancel.clone();
    setup.surface.watch = Some(Box::new(move |event| {
        if matches!(event, TurnEvent::Model(ModelEvent::TextDelta(_))) {
            cancel.cancel();
        }
    }));
    let model = ScriptedModel::new([Step::Hang("Once upon")]);
    assert_eq!(setup.run(&model).await, Ok(TurnEnd::Interrupted));
    assert_eq!(
        setup.messages.last(),
        Some(&Message::assistant("Once upon"))
    );
    let (kept, detail) = setup.surface.kept.last().unwrap();
    assert_eq!(kept, &Message::assistant("Once upon"));
    assert_eq!(detail.finish.as_deref(), Some("interrupted"));
}

#[tokio::test]
async fn a_turn_stopped_before_any_text_adds_nothing() {
    let mut setup = TurnFixture::new(Vec::new());
    setup.session.context.cancel.cancel();
    let model = ScriptedModel::new([]);
    assert_eq!(setup.run(&model).await, Ok(TurnEnd::Interrupted));
    assert_eq!(setup.messages.len(), 2);
    assert!(setup.surface.kept.is_empty());
}

/// Tells when it is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A deaf tool never ends; the other one reacts to cancellation.
fn slow(
    name: &'static str,
    is_deaf: bool,
    dropped: &Arc<AtomicBool>,
) -> Arc<dyn hermes_agent::tools::tool::Tool> {
    let dropped = dropped.clone();
    Arc::new(FunctionTool {
        name,
        concurrency: Concurrency::Parallel,
        run: move |_: Map<String, Value>, context: &ToolContext| {
            let (cancel, dropped) = (context.cancel.clone(), Dropped(dropped.clone()));
            Box::pin(async move {
                let _dropped = dropped;
                if is_deaf {
                    std::future::pending::<()>().await;
                }
                cancel.cancelled().await;
                ToolOutput::error("stopped when told to")
            }) as BoxFuture<'static, _>
        },
    })
}

#[tokio::test(start_paused = true)]
async fn running_calls_end_and_waiting_ones_never_begin() {
    let (deaf, polite) = (Arc::default(), Arc::default());
    let tools = vec![
        slow("deaf", true, &deaf),
        slow("polite", false, &polite),
        echo(Concurrency::Exclusive),
    ];
    let mut setup = TurnFixture::new(tools);
    let cancel = setup.session.context.cancel.clone();
    setup.surface.watch = Some(Box::new(move |event| {
        if matches!(event, TurnEvent::CallStarted(call) if call.name == "polite") {
            cancel.cancel();
        }
    }));
    let calls = vec![
        call("c1", "deaf", &json!({})),
        call("c2", "polite", &json!({})),
        call("c3", "echo", &json!({"text": "too late"})),
    ];
    let model = ScriptedModel::new([Step::Call(calls)]);
    assert_eq!(setup.run(&model).await, Ok(TurnEnd::Interrupted));
    let results = setup.surface.results();
    assert!(
        results[0].contains("interrupted by the user"),
        "{}",
        results[0]
    );
    assert!(
        results[1].contains("stopped when told to"),
        "{}",
        results[1]
    );
    assert!(results[2].contains("not run"), "{}", results[2]);
    assert_eq!(setup.messages.len(), 2 + 1 + 3);
    assert!(deaf.load(Ordering::SeqCst) && polite.load(Ordering::SeqCst));
    assert!(!setup.surface.shown_calls().contains(&">echo".to_owned()));
}

#[cfg(unix)]
#[tokio::test]
async fn commands_are_killed_with_their_children() {
    use hermes_testkit::{eventually, process_exists};

    const TIMEOUT: std::time::Duration = std::time::Duration::from_mins(1);

    use hermes_agent::tools::{
        ToolDeps, built_in_tools,
        terminal::{TerminalSettings, process::ProcessTable},
    };
    let environment = vec![("PATH".into(), std::env::var_os("PATH").unwrap())];
    let settings = TerminalSettings::from_document(&json!({}), environment);
    let means = ToolDeps {
        terminal: Some((settings, Arc::<ProcessTable>::default())),
        ..ToolDeps::default()
    };
    let mut setup = TurnFixture::new(built_in_tools(means));
    let cancel = setup.session.context.cancel.clone();
    let marker = setup.session.path("pid");
    let seen = marker.clone();
    let watch = async move {
        assert!(eventually(TIMEOUT, || seen.exists()).await);
        cancel.cancel();
    };
    let command = "sleep 600 & echo $! > pid.tmp; mv pid.tmp pid; wait";
    let calls = vec![call("c1", "terminal", &json!({"command": command}))];
    let model = ScriptedModel::new([Step::Call(calls)]);
    let (end, ()) = tokio::join!(setup.run(&model), watch);
    assert_eq!(end, Ok(TurnEnd::Interrupted));
    let pid: u32 = std::fs::read_to_string(marker)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    assert!(eventually(TIMEOUT, || !process_exists(pid)).await);
}
