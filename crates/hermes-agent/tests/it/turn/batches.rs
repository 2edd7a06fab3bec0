//! Several calls in one message: what runs together, what waits, and in which order results come back.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::BoxFuture;
use hermes_agent::{
    message::ToolCall,
    tools,
    tools::tool::{Concurrency, Tool, ToolContext, ToolOutput},
    turn::TurnEnd,
};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};

use super::{FunctionTool, ScriptedModel, Step, TurnFixture, call};

/// Far longer than anything here takes.
const TIMEOUT: Duration = Duration::from_mins(1);

type Releases = Arc<Mutex<HashMap<u64, oneshot::Sender<()>>>>;

/// Calls that report their start and end when released.
struct CallGate {
    begun: mpsc::UnboundedReceiver<u64>,
    doors: Releases,
}

impl CallGate {
    fn new(company: Concurrency) -> (Self, Arc<dyn Tool>) {
        let (sender, begun) = mpsc::unbounded_channel();
        let doors = Releases::default();
        let inside = doors.clone();
        let tool = FunctionTool {
            name: "gate",
            concurrency: company,
            run: move |arguments: Map<String, Value>, _: &ToolContext| {
                let number = arguments["n"].as_u64().unwrap();
                let (listener, open) = oneshot::channel();
                inside.lock().unwrap().insert(number, listener);
                sender.send(number).unwrap();
                Box::pin(async move {
                    open.await.unwrap();
                    ToolOutput::text(format!("result {number}"))
                }) as BoxFuture<'static, _>
            },
        };
        (Self { begun, doors }, Arc::new(tool))
    }

    async fn next(&mut self) -> u64 {
        tokio::time::timeout(TIMEOUT, self.begun.recv())
            .await
            .unwrap()
            .unwrap()
    }

    /// Whether no call starts although all ready tasks have run.
    async fn is_quiet(&mut self) -> bool {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        self.begun.try_recv().is_err()
    }

    fn open(&self, number: u64) {
        let listener = self.doors.lock().unwrap().remove(&number);
        listener.unwrap().send(()).unwrap();
    }
}

fn calls(count: u64) -> Vec<ToolCall> {
    (0..count)
        .map(|n| call(&format!("c{n}"), "gate", &json!({"n": n})))
        .collect()
}

#[tokio::test]
async fn ten_safe_calls_run_eight_at_once_and_answer_in_order() {
    let (mut gate, tool) = CallGate::new(Concurrency::Parallel);
    let mut setup = TurnFixture::new(vec![tool]);
    let model = ScriptedModel::new([Step::Call(calls(10)), Step::Say("done")]);
    let watch = async {
        for n in 0..8 {
            assert_eq!(gate.next().await, n);
        }
        assert!(gate.is_quiet().await, "a ninth call began");
        // Whichever ends first makes room for the next.
        for (done, begins) in [(7, 8), (3, 9)] {
            gate.open(done);
            assert_eq!(gate.next().await, begins);
        }
        for n in [9, 8, 6, 5, 4, 2, 1, 0] {
            gate.open(n);
        }
    };
    let (end, ()) = tokio::join!(setup.run(&model), watch);
    assert_eq!(end, Ok(TurnEnd::Answered));
    let expected: Vec<String> = (0..10).map(|n| format!("result {n}")).collect();
    assert_eq!(setup.surface.results(), expected);
    let ended: Vec<String> = setup.surface.shown_calls();
    assert_eq!(ended.len(), 20);
}

#[tokio::test]
async fn other_calls_run_one_after_the_other() {
    let (mut gate, tool) = CallGate::new(Concurrency::Exclusive);
    let mut setup = TurnFixture::new(vec![tool]);
    let model = ScriptedModel::new([Step::Call(calls(3)), Step::Say("done")]);
    let watch = async {
        for n in 0..3 {
            assert_eq!(gate.next().await, n);
            assert!(gate.is_quiet().await, "a call did not wait");
            gate.open(n);
        }
    };
    let (end, ()) = tokio::join!(setup.run(&model), watch);
    assert_eq!(end, Ok(TurnEnd::Answered));
}

#[tokio::test]
async fn unreadable_arguments_keep_the_calls_around_them_apart() {
    let (mut gate, tool) = CallGate::new(Concurrency::Parallel);
    let mut setup = TurnFixture::new(vec![tool]);
    let mut batch = calls(2);
    batch.insert(1, ToolCall::new("broken", "gate", "{"));
    let model = ScriptedModel::new([Step::Call(batch), Step::Say("done")]);
    let watch = async {
        assert_eq!(gate.next().await, 0);
        assert!(gate.is_quiet().await, "the second call did not wait");
        gate.open(0);
        assert_eq!(gate.next().await, 1);
        gate.open(1);
    };
    let (end, ()) = tokio::join!(setup.run(&model), watch);
    assert_eq!(end, Ok(TurnEnd::Answered));
    let results = setup.surface.results();
    assert_eq!(
        (results[0].as_str(), results[2].as_str()),
        ("result 0", "result 1")
    );
}

#[tokio::test]
async fn what_is_complete_is_kept_before_the_next_call_begins() {
    let (mut gate, tool) = CallGate::new(Concurrency::Exclusive);
    let mut setup = TurnFixture::new(vec![tool]);
    // There is space for the calls and one result: the third call never begins.
    setup.surface.message_limit = Some(2);
    let model = ScriptedModel::new([Step::Call(calls(3))]);
    let watch = async {
        assert_eq!(gate.next().await, 0);
        gate.open(0);
        assert_eq!(gate.next().await, 1);
        gate.open(1);
    };
    let (end, ()) = tokio::join!(setup.run(&model), watch);
    assert!(end.is_err());
    assert_eq!(setup.surface.results(), ["result 0"]);
    assert!(gate.is_quiet().await);
}

#[tokio::test]
async fn writes_to_the_same_path_stay_in_order() {
    let mut setup = TurnFixture::new(tools::built_in_tools(tools::ToolDeps::default()));
    let write = |id: &str, path: &str, content: &str| {
        call(id, "write_file", &json!({"path": path, "content": content}))
    };
    let mut batch = Vec::new();
    for n in 0..20 {
        batch.push(write(&format!("a{n}"), "same.txt", &n.to_string()));
        batch.push(call(
            &format!("r{n}"),
            "read_file",
            &json!({"path": "./same.txt"}),
        ));
    }
    batch.push(write("other", "other.txt", "x"));
    let model = ScriptedModel::new([Step::Call(batch), Step::Say("done")]);
    assert_eq!(setup.run(&model).await, Ok(TurnEnd::Answered));
    let read: Vec<String> = setup
        .surface
        .results()
        .into_iter()
        .skip(1)
        .step_by(2)
        .take(20)
        .collect();
    for (n, text) in read.iter().enumerate() {
        assert!(text.contains(&format!("1|{n}")), "{n}: {text}");
    }
    assert_eq!(setup.session.read("same.txt"), "19");
}
