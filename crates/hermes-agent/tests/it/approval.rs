//! Published approvals: a second process of the home answers instead of the person.

use std::{
    os::unix::fs::PermissionsExt,
    process::Command,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures::future::BoxFuture;
use hermes_agent::approval::{
    ApprovalError, ApprovalRequest, ApprovalSettings, Approvals, Approver, CommandContext,
    Decision, OtherDirectories, ProtectedPaths, PublishedApprover, SubmitOutcome,
    SubmittedDecision, WrittenFiles, is_owner_gone, send_decision,
};
use hermes_config::Home;
use hermes_store::{
    SessionId,
    runtime::{
        AnswerReceipt, Approval, ApprovalAnswer, ApprovalOutcome, ApprovalState, NewApproval,
        RuntimeStore,
    },
};
use hermes_testkit::{TemporaryHome, eventually, eventually_some};
use tokio_util::sync::CancellationToken;

/// A local approver that may never answer.
struct SilentApprover(Option<Decision>);

impl Approver for SilentApprover {
    fn request_approval(&self, _request: ApprovalRequest) -> BoxFuture<'_, Decision> {
        match &self.0 {
            Some(decision) => Box::pin(std::future::ready(decision.clone())),
            None => Box::pin(std::future::pending()),
        }
    }
}

/// Answers once the request is published, and records its id.
struct SlowApprover {
    store: RuntimeStore,
    decision: Decision,
    asked: Arc<Mutex<String>>,
}

impl Approver for SlowApprover {
    fn request_approval(&self, _request: ApprovalRequest) -> BoxFuture<'_, Decision> {
        Box::pin(async {
            *self.asked.lock().unwrap() = wait_for_open_request(&self.store).await.id;
            self.decision.clone()
        })
    }
}

struct ApprovalFixture {
    _directory: TemporaryHome,
    home: Home,
    /// The store as another process of the home opens it.
    other: RuntimeStore,
    told: Arc<Mutex<Vec<String>>>,
}

impl ApprovalFixture {
    async fn new() -> Self {
        let directory = TemporaryHome::new();
        let home = Home::at(directory.path());
        let other = RuntimeStore::open(&home).await.unwrap();
        Self {
            _directory: directory,
            home,
            other,
            told: Arc::default(),
        }
    }

    fn published(&self, person: impl Approver + 'static) -> Arc<PublishedApprover> {
        let told = self.told.clone();
        let published = PublishedApprover::new(self.home.clone(), Arc::new(person));
        Arc::new(published.on_notice(move |line| told.lock().unwrap().push(line.to_owned())))
    }

    fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }

    async fn row(&self, id: &str) -> Approval {
        self.other.approval(id).await.unwrap().unwrap()
    }
}

fn approvals(approver: Arc<PublishedApprover>, timeout: Duration) -> Approvals {
    let settings = ApprovalSettings {
        timeout,
        ..ApprovalSettings::default()
    };
    Approvals::new(settings, approver)
        .for_session(SessionId::parse("20260101_000000_abcdef").unwrap())
}

const LONG_TIMEOUT: Duration = Duration::from_mins(10);

async fn check_command(
    approvals: &Approvals,
    command: &str,
    cancel: &CancellationToken,
) -> Result<(), ApprovalError> {
    let context = CommandContext {
        directory: "/home/ann/project".into(),
        protected_paths: ProtectedPaths {
            user_home: Some("/home/ann".into()),
            hermes_home: None,
            ..ProtectedPaths::default()
        },
        written_files: WrittenFiles::default(),
        other_directories: OtherDirectories::default(),
    };
    approvals
        .check_command("terminal", command, &context, cancel)
        .await
}

/// Waits for an open request.
async fn wait_for_open_request(store: &RuntimeStore) -> Approval {
    let began = Instant::now();
    loop {
        if let Some(found) = store.open_approvals().await.unwrap().pop() {
            return found;
        }
        assert!(began.elapsed() < LONG_TIMEOUT / 20, "nothing was published");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Submits a decision to the process that asks, as another process would.
async fn submit_decision(
    home: &Home,
    row: &Approval,
    answer: ApprovalAnswer,
    by: &str,
    reason: Option<&str>,
) {
    let given = SubmittedDecision {
        reason: reason.map(str::to_owned),
        ..SubmittedDecision::new(answer, by)
    };
    let owner = u32::try_from(row.owner_pid).unwrap();
    let taken = send_decision(home, owner, &row.id, &given).await;
    assert_eq!(taken.unwrap(), Some(SubmitOutcome::Accepted));
}

#[tokio::test]
async fn an_answer_that_somebody_wrote_into_the_database_decides_nothing_and_is_logged() {
    let place = ApprovalFixture::new().await;
    let log = place.home.path().join("test.log");
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(Arc::new(std::fs::File::create(&log).unwrap()))
        .finish();
    let _listening = tracing::subscriber::set_default(subscriber);
    let published = place.published(SilentApprover(None));
    let approvals = approvals(published.clone(), LONG_TIMEOUT);
    let cancel = CancellationToken::new();
    let asked = check_command(&approvals, "rm -r x", &cancel);
    let attacking = async {
        let row = wait_for_open_request(&place.other).await;
        let answered = place
            .other
            .answer_approval(&row.id, ApprovalAnswer::Always, "owner", None);
        assert_eq!(answered.await.unwrap(), AnswerReceipt::Accepted);
        // It is removed again, and the request stays open.
        let again = wait_for_open_request(&place.other).await;
        assert_eq!((again.id, again.answer), (row.id.clone(), None));
        place
            .other
            .resolve_approval(&row.id, ApprovalOutcome::Answered(ApprovalAnswer::Always))
            .await
            .unwrap();
        submit_decision(&place.home, &row, ApprovalAnswer::Deny, "the bridge", None).await;
        row.id
    };
    let (refused, id) = tokio::join!(asked, attacking);
    assert!(refused.is_err());
    published.close().await;
    let row = place.row(&id).await;
    assert_eq!(row.outcome.as_deref(), Some("deny"));
    assert_eq!(row.answered_by.as_deref(), Some("the bridge"));
    let logged = std::fs::read_to_string(&log).unwrap();
    let mut lines = logged.lines();
    let warning = lines.find(|line| line.contains("ignored an approval answer"));
    let warning = warning.unwrap_or_else(|| panic!("{logged}"));
    for part in ["WARN", &id, "by=\"owner\""] {
        assert!(warning.contains(part), "no `{part}` in {warning}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_the_process_that_asks_has_started_cannot_decide() {
    let place = ApprovalFixture::new().await;
    let published = place.published(SilentApprover(None));
    let approvals = approvals(published.clone(), LONG_TIMEOUT);
    let cancel = CancellationToken::new();
    let asked = check_command(&approvals, "rm -r x", &cancel);
    let attacking = async {
        let row = wait_for_open_request(&place.other).await;
        let sockets = std::fs::read_dir(place.home.run_dir()).unwrap();
        let socket = sockets.flatten().next().unwrap().path();
        let script = "import json, socket, sys\n\
                      s = socket.socket(socket.AF_UNIX)\n\
                      s.connect(sys.argv[1])\n\
                      m = {'id': sys.argv[2], 'answer': 'once', 'by': 'owner', 'reason': None}\n\
                      s.sendall((json.dumps(m) + '\\n').encode())\n\
                      print(s.makefile().readline())";
        // Detached: neither its parent nor its session nor its variables tell where it comes from.
        let mut command = tokio::process::Command::new("setsid");
        command
            .args([
                "--fork",
                "--wait",
                "env",
                "-i",
                "/usr/bin/env",
                "python3",
                "-c",
                script,
            ])
            .arg(&socket)
            .arg(&row.id);
        hermes_mcp::process::descendants::mark_descendants(&mut command);
        let output = command.output().await.unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("refused"), "{said} {output:?}");
        assert_eq!(place.row(&row.id).await.state, ApprovalState::Open);
        cancel.cancel();
    };
    let (refused, ()) = tokio::join!(asked, attacking);
    assert!(refused.is_err());
    published.close().await;
}

#[tokio::test]
async fn an_answer_of_another_process_counts_and_the_row_says_so() {
    let place = ApprovalFixture::new().await;
    let published = place.published(SilentApprover(None));
    let approvals = approvals(published.clone(), LONG_TIMEOUT);
    let cancel = CancellationToken::new();
    let command = "rm -r build\u{202e}\u{200b}\t# sk-abcdefghijklmnopqrstuvwx";
    let asked = check_command(&approvals, command, &cancel);
    let answering = async {
        let row = wait_for_open_request(&place.other).await;
        assert!(
            row.id.starts_with("ap_") && row.id.len() == 15,
            "{}",
            row.id
        );
        assert_eq!(row.kind, "exec");
        assert!(row.command.starts_with("rm -r build # "), "{}", row.command);
        assert!(!row.command.contains("abcdefghij"), "{}", row.command);
        assert!(!row.description.is_empty() && !row.pattern_keys.is_empty());
        // A command that is not shown unchanged cannot be always allowed.
        assert!(!row.allow_permanent && !is_owner_gone(&row));
        assert_eq!(
            row.session.as_ref().unwrap().as_str(),
            "20260101_000000_abcdef"
        );
        let timeout = row.expires_at.unwrap() - row.created_at;
        assert!(
            (timeout - LONG_TIMEOUT.as_secs_f64()).abs() < 1.0,
            "{timeout}"
        );
        submit_decision(
            &place.home,
            &row,
            ApprovalAnswer::Session,
            "the bridge",
            None,
        )
        .await;
        row.id
    };
    let (allowed, id) = tokio::join!(asked, answering);
    assert_eq!(allowed, Ok(()));
    let row = place.row(&id).await;
    assert_eq!(row.state, ApprovalState::Resolved);
    assert_eq!(row.outcome.as_deref(), Some("session"));
    assert_eq!(
        place.told(),
        ["Answered by the bridge: allowed for this session."]
    );
    // It holds for the session.
    assert_eq!(check_command(&approvals, command, &cancel).await, Ok(()));
    assert!(place.other.open_approvals().await.unwrap().is_empty());
    published.close().await;
}

#[tokio::test]
async fn a_refusal_of_another_process_brings_its_reason() {
    let place = ApprovalFixture::new().await;
    let approvals = approvals(place.published(SilentApprover(None)), LONG_TIMEOUT);
    let cancel = CancellationToken::new();
    let answering = async {
        let row = wait_for_open_request(&place.other).await;
        submit_decision(
            &place.home,
            &row,
            ApprovalAnswer::Deny,
            "b",
            Some("not today"),
        )
        .await;
        row.id
    };
    let (refused, id) = tokio::join!(check_command(&approvals, "rm -r x", &cancel), answering);
    assert_eq!(refused, Err(ApprovalError::NotApproved("not today".into())));
    assert_eq!(place.row(&id).await.outcome.as_deref(), Some("deny"));
}

#[tokio::test]
async fn the_person_s_answer_closes_the_row() {
    let place = ApprovalFixture::new().await;
    for (decision, outcome) in [
        (Decision::Once, "once"),
        (Decision::Denied { reason: None }, "deny"),
        (Decision::Always, "always"),
    ] {
        let asked = Arc::new(Mutex::new(String::new()));
        let person = SlowApprover {
            store: place.other.clone(),
            decision: decision.clone(),
            asked: asked.clone(),
        };
        let approvals = approvals(place.published(person), LONG_TIMEOUT);
        let allowed = check_command(&approvals, "rm -r x", &CancellationToken::new()).await;
        assert_eq!(allowed.is_ok(), decision.is_allowed());
        let id = asked.lock().unwrap().clone();
        let row = place.row(&id).await;
        assert_eq!(row.state, ApprovalState::Resolved);
        assert_eq!(row.outcome.as_deref(), Some(outcome));
    }
    assert!(place.told().is_empty());
}

struct ForestalledApprover(Home, RuntimeStore);

impl Approver for ForestalledApprover {
    fn request_approval(&self, _request: ApprovalRequest) -> BoxFuture<'_, Decision> {
        Box::pin(async {
            let row = wait_for_open_request(&self.1).await;
            submit_decision(&self.0, &row, ApprovalAnswer::Deny, "b", None).await;
            Decision::Once
        })
    }
}

#[tokio::test]
async fn of_two_answers_the_first_counts() {
    let place = ApprovalFixture::new().await;
    let person = ForestalledApprover(place.home.clone(), place.other.clone());
    let approvals = approvals(place.published(person), LONG_TIMEOUT);
    let refused = check_command(&approvals, "rm -r x", &CancellationToken::new()).await;
    assert!(refused.is_err());
    assert_eq!(place.told(), ["Answered by b: denied."]);
}

#[tokio::test]
async fn time_that_is_over_and_an_interrupt_close_the_row() {
    let place = ApprovalFixture::new().await;
    let published = place.published(SilentApprover(None));
    // Long enough for a busy machine to publish the request before.
    let short = approvals(published.clone(), Duration::from_secs(3));
    let watch = async { wait_for_open_request(&place.other).await.id };
    let cancel = CancellationToken::new();
    let (refused, late) = tokio::join!(check_command(&short, "rm -r x", &cancel), watch);
    assert!(refused.is_err());
    let long = approvals(published.clone(), LONG_TIMEOUT);
    let watch = async {
        // The row of the first request may not be closed yet.
        let id = loop {
            let row = wait_for_open_request(&place.other).await;
            if row.id != late {
                break row.id;
            }
        };
        cancel.cancel();
        id
    };
    let (refused, interrupted) = tokio::join!(check_command(&long, "rm -r x", &cancel), watch);
    assert!(refused.is_err());
    published.close().await;
    assert_eq!(place.row(&late).await.outcome.as_deref(), Some("expired"));
    let outcome = place.row(&interrupted).await.outcome;
    assert_eq!(outcome.as_deref(), Some("cancelled"));
}

#[tokio::test]
async fn what_a_dead_process_left_open_expires() {
    let place = ApprovalFixture::new().await;
    let mut child = Command::new("true").spawn().unwrap();
    let gone = child.id();
    child.wait().unwrap();
    let left = NewApproval {
        id: "ap_left".into(),
        kind: "exec".into(),
        session_key: None,
        session: None,
        run_id: None,
        command: "rm -r x".into(),
        description: "it deletes".into(),
        pattern_keys: Vec::new(),
        allow_permanent: false,
        timeout: None,
        owner_pid: gone,
        owner_start: Some(1),
    };
    place.other.publish_approval(&left).await.unwrap();
    assert!(is_owner_gone(&place.row("ap_left").await));
    let approvals = approvals(place.published(SilentApprover(None)), LONG_TIMEOUT);
    let cancel = CancellationToken::new();
    let watch = async {
        let outcome = async || place.row("ap_left").await.outcome;
        assert!(eventually_some(LONG_TIMEOUT, outcome).await.is_some());
        cancel.cancel();
    };
    let (_, ()) = tokio::join!(check_command(&approvals, "rm -r x", &cancel), watch);
    let row = place.row("ap_left").await;
    assert_eq!(row.outcome.as_deref(), Some("expired"));
}

/// Answers once the person was notified that nobody else can.
struct NotifiedApprover(Arc<Mutex<Vec<String>>>);

impl Approver for NotifiedApprover {
    fn request_approval(&self, _request: ApprovalRequest) -> BoxFuture<'_, Decision> {
        Box::pin(async {
            let is_told = || !self.0.lock().unwrap().is_empty();
            assert!(eventually(LONG_TIMEOUT, is_told).await);
            Decision::Once
        })
    }
}

#[tokio::test]
async fn where_nothing_can_be_published_the_person_alone_is_asked_and_told_once() {
    let directory = TemporaryHome::new();
    std::fs::write(directory.path().join("runtime.db"), "this is no database").unwrap();
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(directory.path().join("runtime.db"), mode).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let lines = told.clone();
    let published = PublishedApprover::new(
        Home::at(directory.path()),
        Arc::new(NotifiedApprover(told.clone())),
    )
    .on_notice(move |line| lines.lock().unwrap().push(line.to_owned()));
    let approvals = approvals(Arc::new(published), LONG_TIMEOUT);
    for _ in 0..2 {
        let allowed = check_command(&approvals, "rm -r x", &CancellationToken::new()).await;
        assert_eq!(allowed, Ok(()));
    }
    let told = told.lock().unwrap().clone();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("runtime.db"), "{told:?}");
}

#[tokio::test]
async fn nothing_is_opened_before_something_is_asked() {
    let directory = TemporaryHome::new();
    let published =
        PublishedApprover::new(Home::at(directory.path()), Arc::new(SilentApprover(None)));
    let approvals = approvals(Arc::new(published), LONG_TIMEOUT);
    let cancel = CancellationToken::new();
    assert_eq!(check_command(&approvals, "ls", &cancel).await, Ok(()));
    assert!(!directory.path().join("runtime.db").exists());
}
