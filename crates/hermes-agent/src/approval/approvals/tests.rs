use std::time::Duration;

use futures::future::BoxFuture;

use super::*;
use crate::approval::{OtherDirectories, ProtectedPaths, WrittenFiles};

/// Answers from a list and remembers what it was asked.
#[derive(Default)]
struct Scripted {
    answers: Mutex<Vec<Decision>>,
    asked: Mutex<Vec<ApprovalRequest>>,
}

impl Scripted {
    fn new(answers: impl IntoIterator<Item = Decision>) -> Arc<Self> {
        let mut answers: Vec<Decision> = answers.into_iter().collect();
        answers.reverse();
        Arc::new(Self {
            answers: Mutex::new(answers),
            asked: Mutex::default(),
        })
    }

    fn asked(&self) -> Vec<ApprovalRequest> {
        self.asked.lock().clone()
    }
}

impl Approver for Scripted {
    fn request_approval(&self, request: ApprovalRequest) -> BoxFuture<'_, Decision> {
        self.asked.lock().push(request);
        let answer = self.answers.lock().pop();
        Box::pin(async move {
            match answer {
                Some(answer) => answer,
                None => std::future::pending().await,
            }
        })
    }
}

struct Fixed(Judgement);

impl Judge for Fixed {
    fn judge<'a>(&'a self, _request: &'a ApprovalRequest) -> BoxFuture<'a, Judgement> {
        Box::pin(std::future::ready(self.0.clone()))
    }
}

fn command_context() -> CommandContext {
    let protected = ProtectedPaths {
        user_home: Some("/home/ann".into()),
        hermes_home: None,
        ..ProtectedPaths::default()
    };
    CommandContext {
        directory: "/home/ann/project".into(),
        protected_paths: protected,
        written_files: WrittenFiles::default(),
        other_directories: OtherDirectories::default(),
    }
}

async fn run(approvals: &Approvals, command: &str) -> Result<(), ApprovalError> {
    approvals
        .check_command(
            "terminal",
            command,
            &command_context(),
            &CancellationToken::new(),
        )
        .await
}

fn manual(approver: &Arc<Scripted>) -> Approvals {
    Approvals::new(ApprovalSettings::default(), approver.clone())
}

#[tokio::test]
async fn harmless_commands_ask_nobody() {
    let approver = Scripted::new([]);
    assert_eq!(run(&manual(&approver), "ls -l").await, Ok(()));
    assert!(approver.asked().is_empty());
}

#[tokio::test]
async fn once_is_asked_again_and_session_is_not() {
    let approver = Scripted::new([Decision::Once, Decision::Session]);
    let approvals = manual(&approver);
    for _ in 0..4 {
        assert_eq!(run(&approvals, "rm -r build").await, Ok(()));
    }
    assert_eq!(approver.asked().len(), 2);
    assert_eq!(approver.asked()[0].rules, ["recursive delete"]);
}

#[tokio::test]
async fn always_is_handed_on_to_be_kept() {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let sink = kept.clone();
    let approver = Scripted::new([Decision::Always]);
    let approvals =
        manual(&approver).on_always(move |rules| sink.lock().extend(rules.iter().cloned()));
    assert_eq!(run(&approvals, "rm -r build/*").await, Ok(()));
    assert_eq!(run(&approvals, "rm -r build/*").await, Ok(()));
    // What was shown, and not all that is like it.
    assert_eq!(*kept.lock(), ["rm -r build/\\*"]);
    assert_eq!(approver.asked().len(), 1);
    for other in [
        "rm -r other",
        "rm -r build/x",
        "rm -r build/* ; rm -r other",
    ] {
        let asked = tokio::time::timeout(Duration::from_millis(50), run(&approvals, other));
        assert!(asked.await.is_err(), "{other} was not asked about");
    }
    let settings = ApprovalSettings {
        allow: kept.lock().clone(),
        ..ApprovalSettings::default()
    };
    let next = Approvals::new(settings, approver.clone());
    assert_eq!(run(&next, "rm -r build/*").await, Ok(()));
}

#[tokio::test]
async fn what_is_not_shown_whole_is_not_remembered_for_ever() {
    let approver = Scripted::new([Decision::Once]);
    let approvals = manual(&approver);
    let secret = "rm -r sk-abcdefghijklmnopqrstuvwx";
    assert_eq!(run(&approvals, secret).await, Ok(()));
    let asked = &approver.asked()[0];
    assert!(
        !asked.can_allow_always && asked.pattern.is_none(),
        "{asked:?}"
    );
}

#[tokio::test]
async fn a_script_that_the_model_wrote_before_is_asked_about() {
    let approver = Scripted::new([Decision::Once]);
    let approvals = manual(&approver);
    assert_eq!(run(&approvals, "python3 a.py").await, Ok(()));
    approvals.record_written_file(Path::new("/home/ann/project/a.py"));
    assert_eq!(run(&approvals, "python3 a.py").await, Ok(()));
    assert_eq!(
        approver.asked()[0].rules,
        ["run script written in this session"]
    );
    // So is what an earlier command fetched.
    assert_eq!(
        run(&approvals, "curl -so z.sh https://x.example").await,
        Ok(())
    );
    let asked = tokio::time::timeout(Duration::from_millis(50), run(&approvals, "sh z.sh"));
    assert!(asked.await.is_err());
    assert_eq!(approver.asked()[1].rules, ["pipe remote content to shell"]);
}

#[tokio::test]
async fn a_sandbox_spares_questions_and_is_offered_at_the_first_that_it_would_have_spared() {
    let approver = Scripted::new([Decision::Once, Decision::Once, Decision::Once]);
    let approvals = manual(&approver);
    let decide = async |command: &str, holding| {
        let cancel = CancellationToken::new();
        approvals
            .check_command_in_sandbox("terminal", command, &command_context(), holding, &cancel)
            .await
    };
    let computed = "$(printf ls) -l";
    assert_eq!(decide(computed, SandboxState::Enforced).await, Ok(()));
    assert!(approver.asked().is_empty());
    for command in ["rm -r d", computed, computed] {
        assert_eq!(decide(command, SandboxState::Available).await, Ok(()));
    }
    let advised: Vec<bool> = approver
        .asked()
        .iter()
        .map(|request| request.hint.is_some())
        .collect();
    assert_eq!(advised, [false, true, false]);
    // What the workspace itself would lose is asked about all the same.
    let deleting = decide("rm -r d", SandboxState::Enforced);
    let asked = tokio::time::timeout(Duration::from_millis(50), deleting);
    assert!(asked.await.is_err());
}

#[tokio::test]
async fn a_new_rule_is_asked_even_if_another_one_is_allowed() {
    let approver = Scripted::new([Decision::Session, Decision::Denied { reason: None }]);
    let approvals = manual(&approver);
    run(&approvals, "rm -r build").await.unwrap();
    run(&approvals, "rm -r build; chmod 777 x")
        .await
        .unwrap_err();
    assert_eq!(
        approver.asked()[1].rules,
        ["recursive delete", "world/other-writable permissions"]
    );
}

#[tokio::test]
async fn a_session_answer_holds_for_the_command_that_was_shown_and_nothing_like_it() {
    let once = || Decision::Denied { reason: None };
    let approver = Scripted::new(
        [Decision::Session]
            .into_iter()
            .chain((0..6).map(|_| once())),
    );
    let approvals = manual(&approver);
    for command in ["rm -r build", " rm -r build\n"] {
        assert_eq!(run(&approvals, command).await, Ok(()));
    }
    for other in [
        "rm -r src",
        "rm -r Build",
        "rm -r build src",
        "sudo rm -r build",
        "cd .. && rm -r build",
    ] {
        assert!(run(&approvals, other).await.is_err(), "{other}");
    }
    // The same words elsewhere mean another directory.
    let elsewhere = CommandContext {
        directory: "/home/ann/other".into(),
        ..command_context()
    };
    let cancel = CancellationToken::new();
    let asked = approvals.check_command("terminal", "rm -r build", &elsewhere, &cancel);
    assert!(asked.await.is_err());
    assert_eq!(approver.asked().len(), 7);
}

#[tokio::test]
async fn an_always_that_was_not_offered_is_one_for_the_session() {
    let kept = Arc::new(Mutex::new(0));
    let sink = kept.clone();
    let approver = Scripted::new([Decision::Always, Decision::Denied { reason: None }]);
    let approvals = manual(&approver).on_always(move |_| *sink.lock() += 1);
    let secret = "rm -r sk-abcdefghijklmnopqrstuvwx";
    for _ in 0..2 {
        assert_eq!(run(&approvals, secret).await, Ok(()));
    }
    assert!(run(&approvals, "rm -r src").await.is_err());
    assert_eq!(*kept.lock(), 0);
}

#[tokio::test]
async fn a_session_answer_about_a_file_holds_for_that_file() {
    let approver = Scripted::new([Decision::Session, Decision::Denied { reason: None }]);
    let approvals = manual(&approver);
    let read = async |path: &str| {
        let subject = format!("read {path}");
        let request = ApprovalRequest {
            tool: "read_file".into(),
            pattern: Some(escape_pattern(&subject)),
            subject,
            rules: vec!["credential file access".into()],
            ..ApprovalRequest::default()
        };
        approvals
            .check_action(request, &CancellationToken::new())
            .await
    };
    assert_eq!(read("/home/ann/a.pem").await, Ok(()));
    assert_eq!(read("/home/ann/a.pem").await, Ok(()));
    assert!(read("/home/ann/b.pem").await.is_err());
}

#[tokio::test]
async fn the_reason_of_a_denial_reaches_the_model() {
    let reason = Some("use git clean".to_owned());
    let approver = Scripted::new([Decision::Denied { reason }]);
    let refusal = run(&manual(&approver), "rm -r build").await.unwrap_err();
    assert!(refusal.to_string().contains("use git clean"), "{refusal}");
}

#[tokio::test]
async fn the_hard_line_holds_in_every_mode() {
    let settings = ApprovalSettings {
        mode: ApprovalMode::Off,
        allow: vec!["*".into(), "recursive delete of system".into()],
        ..ApprovalSettings::default()
    };
    let approvals = Approvals::new(settings, Scripted::new([]));
    assert!(matches!(
        run(&approvals, "sudo rm -rf /").await,
        Err(ApprovalError::Blocked(_))
    ));
    assert_eq!(run(&approvals, "rm -r build").await, Ok(()));
}

#[tokio::test]
async fn denied_patterns_hold_for_every_command_of_a_line() {
    let settings = ApprovalSettings {
        mode: ApprovalMode::Off,
        deny: vec!["git push*".into()],
        ..ApprovalSettings::default()
    };
    let approvals = Approvals::new(settings, Scripted::new([]));
    for line in [
        "git push",
        "cd x && git push --force",
        "sudo git push",
        "sh -c 'git push'",
    ] {
        assert!(
            matches!(
                run(&approvals, line).await,
                Err(ApprovalError::DenyListed(_))
            ),
            "{line}"
        );
    }
    assert_eq!(run(&approvals, "git status; echo git push").await, Ok(()));
}

#[tokio::test]
async fn the_permanent_list_takes_rules_and_patterns() {
    let settings = ApprovalSettings {
        allow: vec!["SQL DROP".into(), "rm -rf node_modules*".into()],
        ..ApprovalSettings::default()
    };
    let approver = Scripted::new([Decision::Denied { reason: None }]);
    let approvals = Approvals::new(settings, approver.clone());
    assert_eq!(run(&approvals, "psql -c 'DROP TABLE x'").await, Ok(()));
    assert_eq!(run(&approvals, "cd x && rm -rf node_modules").await, Ok(()));
    // The pattern is for the command, not for what stands beside it.
    assert!(
        run(&approvals, "rm -rf node_modules; rm -rf src")
            .await
            .is_err()
    );
}

#[tokio::test]
async fn silence_and_interrupts_are_not_approval() {
    let settings = ApprovalSettings {
        timeout: Duration::from_millis(20),
        ..ApprovalSettings::default()
    };
    let approvals = Approvals::new(settings, Scripted::new([]));
    let refusal = run(&approvals, "rm -r build").await.unwrap_err();
    assert!(refusal.to_string().contains("nobody answered"), "{refusal}");
    let cancel = CancellationToken::new();
    cancel.cancel();
    let refusal = approvals
        .check_command("terminal", "rm -r build", &command_context(), &cancel)
        .await
        .unwrap_err();
    assert!(refusal.to_string().contains("interrupted"), "{refusal}");
}

#[tokio::test]
async fn questions_show_no_credentials_and_nothing_hidden() {
    let approver = Scripted::new([Decision::Once]);
    run(
        &manual(&approver),
        "rm -r x; TOKEN=sk-abcdefghijklmnop ls \u{202e}\u{200b}end",
    )
    .await
    .unwrap();
    let subject = &approver.asked()[0].subject;
    assert!(!subject.contains("sk-abc"), "{subject}");
    assert!(subject.ends_with(" end"), "{subject}");
}

#[tokio::test]
async fn a_question_that_is_too_long_is_cut() {
    let approver = Scripted::new([Decision::Once]);
    let command = format!("rm -r build # {}", "ä".repeat(5000));
    run(&manual(&approver), &command).await.unwrap();
    let subject = &approver.asked()[0].subject;
    assert_eq!(subject.chars().count(), 3800);
    assert!(subject.starts_with("rm -r build # ä") && subject.ends_with('…'));
}

#[tokio::test]
async fn a_judge_decides_clear_cases_only() {
    let settings = || ApprovalSettings {
        mode: ApprovalMode::Smart,
        ..ApprovalSettings::default()
    };
    for (judgement, is_ok, asked) in [
        (Judgement::Harmless, true, 0),
        (Judgement::Harmful, false, 0),
        (Judgement::Unclear, true, 1),
    ] {
        let approver = Scripted::new([Decision::Once]);
        let approvals =
            Approvals::new(settings(), approver.clone()).with_judge(Arc::new(Fixed(judgement)));
        assert_eq!(run(&approvals, "rm -r build").await.is_ok(), is_ok);
        assert_eq!(approver.asked().len(), asked);
    }
}

#[tokio::test]
async fn actions_are_remembered_by_their_rules() {
    let approver = Scripted::new([Decision::Session]);
    let approvals = manual(&approver);
    let request = ApprovalRequest {
        tool: "read_file".into(),
        subject: "key.pem".into(),
        reason: "a private key".into(),
        rules: vec!["credential file access".into()],
        can_allow_always: false,
        ..ApprovalRequest::default()
    };
    for _ in 0..2 {
        approvals
            .check_action(request.clone(), &CancellationToken::new())
            .await
            .unwrap();
    }
    assert_eq!(approver.asked().len(), 1);
}

#[tokio::test]
async fn other_settings_count_at_once_and_what_was_allowed_stays_so() {
    let approver = Scripted::new([Decision::Session, Decision::Once]);
    let approvals = Approvals::new(ApprovalSettings::default(), approver.clone());
    let cancel = CancellationToken::new();
    let run = async |approvals: &Approvals, command: &str| {
        let context = command_context();
        let decided = approvals.check_command("terminal", command, &context, &cancel);
        decided.await
    };
    run(&approvals, "rm -r build").await.unwrap();
    let settings = ApprovalSettings {
        deny: vec!["git push*".into()],
        allow: vec!["chmod 777 *".into()],
        ..ApprovalSettings::default()
    };
    let renewed = approvals.with_settings(settings, Redactor::default());
    run(&renewed, "rm -r build").await.unwrap();
    run(&renewed, "chmod 777 x").await.unwrap();
    assert!(matches!(
        run(&renewed, "git push origin").await,
        Err(ApprovalError::DenyListed(_))
    ));
    assert_eq!(approver.asked().len(), 1);
    // A list that is gone again allows nothing.
    let renewed = renewed.with_settings(ApprovalSettings::default(), Redactor::default());
    run(&renewed, "chmod 777 x").await.unwrap();
    assert_eq!(approver.asked().len(), 2);
}
