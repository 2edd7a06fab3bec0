//! Who follows a turn in its chat.

use std::{
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use futures::future::BoxFuture;
use hermes_agent::{conversation::SteeringMessage, turn::TurnEvent};
use hermes_gateway::runs::{
    ChatSurface, RunInput, RunSource, ServerQuestion, TurnObserver, TurnRequest, TurnResult,
};
use hermes_store::{
    NewSession, SessionId, SessionKey,
    runtime::{ApprovalOutcome, NewApproval},
};
use tokio::sync::oneshot;

use super::*;

const LOCK: &str = "import sqlite3, sys\n\
    c = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
    c.execute('BEGIN IMMEDIATE')\n\
    print('locked', flush=True)\n\
    sys.stdin.read()\n";

/// Locks the database of runs before the model is asked.
struct LockingObserver {
    database: PathBuf,
    holder: Mutex<Option<Child>>,
    ended: Mutex<Option<oneshot::Sender<TurnResult>>>,
}

fn lock_database(path: &PathBuf) -> Child {
    let mut holder = Command::new("python3")
        .args(["-c", LOCK])
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(holder.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    assert_eq!(line.trim(), "locked");
    holder
}

impl TurnObserver for LockingObserver {
    fn turn_started(&self, _run: &str) {}

    fn show_event(&self, _event: &TurnEvent) {}

    fn take_user_messages(&self) -> BoxFuture<'_, Vec<SteeringMessage>> {
        Box::pin(async {
            if self.holder.lock().is_none() {
                let path = self.database.clone();
                let locked = tokio::task::spawn_blocking(move || lock_database(&path));
                *self.holder.lock() = Some(locked.await.unwrap());
            }
            Vec::new()
        })
    }

    fn approval_opened(&self, _approval: &NewApproval, _question: Option<ServerQuestion>) {}

    fn approval_closed(&self, _id: &str, _outcome: ApprovalOutcome) {}

    fn turn_ended(&self, result: TurnResult) {
        if let Some(ended) = self.ended.lock().take() {
            let _ = ended.send(result);
        }
    }
}

#[tokio::test]
async fn a_chat_has_its_answer_before_the_record_of_the_run_is_written() {
    let service = ApiFixture::start(ModelScript::echo()).await;
    let (ended, end) = oneshot::channel();
    let observer = Arc::new(LockingObserver {
        database: service.home.path().join("runtime.db"),
        holder: Mutex::default(),
        ended: Mutex::new(Some(ended)),
    });
    let session = SessionId::parse("20260304_050607_abcdef01").unwrap();
    let surface = ChatSurface {
        platform: "telegram".into(),
        platform_note: String::new(),
        row: NewSession::new(session.clone(), "telegram"),
        session_key: SessionKey::new("agent:main:telegram:dm:1"),
        message_id: None,
        note: None,
        provider: None,
        cron_origin: None,
        observer: observer.clone(),
    };
    let request = TurnRequest {
        input: Some("hello".into()),
        results: Vec::new(),
        client_tools: None,
        instructions: None,
        history: Vec::new(),
        session,
        model: None,
        surface: Some(Box::new(surface)),
    };
    let runs = service.gateway.runs();
    let input = RunInput::Turn(Box::new(request));
    let started = runs
        .start(input, RunSource::Platform, json!({}), None)
        .await;
    let result = tokio::time::timeout(TIMEOUT, end).await.unwrap().unwrap();
    assert_eq!(
        result,
        TurnResult::Answered {
            text: "hello".into()
        }
    );
    // The database is still locked, so nothing of the end is written.
    let id = started.unwrap().id;
    let stored = runs.find_run(&id).await.unwrap().unwrap();
    assert!(!stored.status.is_final(), "{stored:?}");
    let mut holder = observer.holder.lock().take().unwrap();
    drop(holder.stdin.take());
    holder.wait().unwrap();
    let finished = service.wait_for_end(&id).await;
    assert_eq!(finished["status"], "completed");
}
