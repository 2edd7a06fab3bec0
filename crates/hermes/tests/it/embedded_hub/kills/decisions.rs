//! A Hub that is killed around decisions about runs that wait for them: a decision is in force everywhere or nowhere.

use std::{cell::Cell, fs, path::PathBuf, time::Duration};

use futures::future::join_all;
use hermes_testkit::{
    eventually_some,
    model::{ModelScript, ScriptedAnswer},
};
use reqwest::Method;
use serde_json::{Value, json};

use super::super::real_hub::{HubReply, RealHub, TIMEOUT};
use crate::harness::test_home::TestHome;

/// When the Hub is killed: after so many acknowledged decisions, and so many milliseconds.
const MOMENTS: [(usize, u64); 5] = [(0, 3), (1, 0), (2, 15), (3, 2), (4, 0)];

/// Runs that wait at once, as many as a tenant may have under way.
const RUNS: usize = 4;

/// A run that wants to remove a directory, and what is decided about that.
struct PendingDecision {
    number: usize,
    run: String,
    approval: String,
    directory: PathBuf,
}

/// What became of a decision before the Hub was killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DecisionState {
    Acknowledged,
    UnderWay,
    Never,
}

impl PendingDecision {
    /// Every second one is denied.
    fn choice(&self) -> &'static str {
        ["once", "deny"][self.number % 2]
    }

    fn opposite(&self) -> &'static str {
        ["deny", "once"][self.number % 2]
    }

    /// Decides by one of the ways there are.
    async fn decide(&self, hub: &RealHub, way: usize, choice: &str) -> Option<HubReply> {
        let Self { run, approval, .. } = self;
        let decision = json!({"choice": choice});
        match way % 3 {
            0 => {
                let path = format!("/v1/approvals/{approval}");
                hub.try_request(Method::POST, &path, &decision).await
            }
            1 => {
                let path = format!("{run}/approval");
                hub.try_request(Method::POST, &path, &decision).await
            }
            _ => {
                let arguments = json!({"approval_id": approval, "choice": choice});
                hub.try_call("respond_approval", &arguments).await
            }
        }
    }

    /// Whether anybody is asked, by this question or by another of the run.
    async fn is_open(&self, hub: &RealHub) -> bool {
        let run = self.run.rsplit('/').next().unwrap();
        let inbox = hub.get("/v1/approvals").await;
        let asked = inbox["approvals"].as_array().unwrap();
        asked.iter().any(|asked| asked["runId"] == run)
    }

    /// Makes sure that what was decided holds, and is not turned round, until the run has ended.
    async fn check(&self, hub: &RealHub, sent: DecisionState) {
        let is_open = self.is_open(hub).await;
        match sent {
            DecisionState::Acknowledged => assert!(!is_open, "{} is asked again", self.run),
            DecisionState::Never => assert!(is_open, "{} was decided by nobody", self.run),
            DecisionState::UnderWay => {}
        }
        if is_open {
            let decided = self.decide(hub, self.number, self.choice()).await.unwrap();
            assert_eq!(decided.status, 200, "{decided:?}");
        }
        for way in 0..3 {
            let late = self.decide(hub, way, self.opposite()).await.unwrap();
            assert_eq!(late.status, 409, "{} turned round: {late:?}", self.run);
        }
        let ended = eventually_some(TIMEOUT, async || {
            let run = hub.get(&self.run).await;
            assert!(!self.is_open(hub).await, "{} is asked again", self.run);
            let status = run["status"].as_str().unwrap();
            ["completed", "failed", "cancelled"]
                .contains(&status)
                .then_some(run)
        });
        let ended = ended.await.unwrap();
        // One that was cut off with its answer cannot know what it has done.
        let is_whole = ended["status"] == "completed";
        assert!(
            is_whole || ended["error"]["code"] == "interrupted",
            "{ended}"
        );
        match self.choice() {
            "deny" => assert!(self.directory.exists(), "denied, and done: {ended}"),
            _ if is_whole => assert!(!self.directory.exists(), "allowed, and not done: {ended}"),
            _ => {}
        }
        let events = hub.get(&format!("{}/events", self.run)).await;
        let answers = events.as_str().unwrap().lines().filter_map(|line| {
            let event: Value = serde_json::from_str(line.strip_prefix("data: ")?).unwrap();
            (event["event"] == "approval.responded").then_some(event)
        });
        for answer in answers {
            assert_eq!(answer["choice"], self.choice(), "{answer}");
        }
    }
}

fn start(home: TestHome) -> RealHub {
    let settings = ["mcp.tools=extended", "limits.rps_per_token=100000"];
    RealHub::with_arguments(home, &settings.map(|setting| ["--set", setting]).concat())
}

/// The text that has the model ask for something.
fn wish(round: usize, number: usize) -> String {
    format!("clear up {round}-{number}.")
}

fn script() -> ModelScript {
    let all = (0..MOMENTS.len()).flat_map(|round| (0..RUNS).map(move |number| (round, number)));
    all.fold(ModelScript::echo(), |script, (round, number)| {
        let command = json!({"command": format!("rm -r old-{round}-{number}")});
        let call = ScriptedAnswer::call("terminal", &command);
        script.rule(&wish(round, number), call)
    })
}

/// Runs that wait for decisions.
async fn ask(hub: &RealHub, round: usize) -> Vec<PendingDecision> {
    let mut questions = Vec::new();
    for number in 0..RUNS {
        let directory = hub.tenant_home("acme").join("workspace");
        let directory = directory.join(format!("old-{round}-{number}"));
        fs::create_dir(&directory).unwrap();
        let run = hub.start_run("acme", &wish(round, number)).await;
        questions.push(PendingDecision {
            number,
            run,
            approval: String::new(),
            directory,
        });
    }
    let all_ask = |inbox: &Value| inbox["approvals"].as_array().unwrap().len() == RUNS;
    let inbox = hub.wait_for("/v1/approvals", all_ask).await;
    for question in &mut questions {
        let asked = inbox["approvals"].as_array().unwrap().iter();
        let run = question.run.rsplit('/').next().unwrap();
        let mut asked = asked.filter(|asked| asked["runId"] == run);
        let approval = asked.next().unwrap()["approvalId"].as_str().unwrap();
        approval.clone_into(&mut question.approval);
    }
    questions
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_is_in_force_or_open_when_the_hub_is_killed_around_it() {
    let home = TestHome::fresh();
    fs::create_dir(home.path()).unwrap();
    let mut hub = start(home);
    let _model = hub.tenant("acme", json!({}), script()).await;
    let config = hub.tenant_home("acme").join("config.yaml");
    let asking = fs::read_to_string(&config).unwrap();
    fs::write(config, asking.replace("mode: 'off'", "mode: manual")).unwrap();
    let mut acknowledged = 0;
    for (round, (count, milliseconds)) in MOMENTS.into_iter().enumerate() {
        let questions = ask(&hub, round).await;
        let heard = Cell::new(0);
        let deciding = async {
            let mut sent = Vec::new();
            for question in &questions {
                let way = question.number + round;
                let Some(said) = question.decide(&hub, way, question.choice()).await else {
                    sent.push(DecisionState::UnderWay);
                    break;
                };
                assert_eq!(said.status, 200, "{said:?}");
                sent.push(DecisionState::Acknowledged);
                heard.update(|heard| heard + 1);
            }
            sent
        };
        let killing = async {
            while heard.get() < count {
                tokio::task::yield_now().await;
            }
            tokio::time::sleep(Duration::from_millis(milliseconds)).await;
            hub.kill();
        };
        let (mut sent, ()) = tokio::join!(deciding, killing);
        sent.resize(RUNS, DecisionState::Never);
        acknowledged += sent
            .iter()
            .filter(|sent| **sent == DecisionState::Acknowledged)
            .count();

        hub = start(hub.into_home());
        let checks = questions.iter().zip(sent);
        join_all(checks.map(|(question, sent)| question.check(&hub, sent))).await;
        let verified = hub.get("/v1/audit/verify").await;
        assert_eq!(verified["ok"], true, "{verified}");
        let mut logged = 0;
        for action in ["respond_approval", "decide_run"] {
            let path = format!("/v1/audit?tenant=acme&action={action}&limit=500");
            let entries = hub.get(&path).await;
            let entries = entries["entries"].as_array().unwrap();
            logged += entries
                .iter()
                .filter(|entry| entry["status"] == 200)
                .count();
        }
        assert!(
            logged >= acknowledged,
            "{logged} of {acknowledged} are in the log"
        );
    }
}
