//! Clients that change, run, decide and schedule, each tenant's on all nodes, and write down what they were told.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    NodeAddresses,
    ledger::{AcceptedRun, WriteKey, WriteLedger},
    request::{NoReply, NodeReply, NodeRequest},
};
use crate::{
    model::{ModelScript, ScriptedAnswer},
    script::lock,
};

/// Between two requests of a client.
const PAUSE: Duration = Duration::from_millis(120);

/// Runs that ask, at most: each has a rule of the model.
const MAX_QUESTIONS: u64 = 3_000;

/// How far ahead a job is due.
const DUE_AFTER: Duration = Duration::from_secs(2);

/// Tells stories in pieces, and does what it is asked by number.
pub(super) fn model_script() -> ModelScript {
    let story = ScriptedAnswer::pieces(["Once ", "upon ", "a ", "time, ", "the ", "end."])
        .with(|reply| reply.pause_ms = 80);
    let script = ModelScript::echo().rule("tell ", story);
    (0..MAX_QUESTIONS).fold(script, |script, number| {
        let command = format!("rm -rf scratch-{number}; echo {number} >> {DONE_FILE}");
        let call = ScriptedAnswer::call("terminal", &json!({"command": command}));
        script.rule(&question(number), call)
    })
}

/// The file of the workspace that has a line for each thing done.
pub(super) const DONE_FILE: &str = "done.txt";

fn question(number: u64) -> String {
    format!("do thing {number}.")
}

/// What all clients share.
pub(super) struct SharedLoad {
    pub(super) addresses: NodeAddresses,
    pub(super) ledger: Mutex<WriteLedger>,
    is_over: AtomicBool,
    next_node: AtomicU64,
    next_number: AtomicU64,
}

impl SharedLoad {
    pub(super) fn new(addresses: NodeAddresses) -> Arc<Self> {
        Arc::new(Self {
            addresses,
            ledger: Mutex::default(),
            is_over: AtomicBool::new(false),
            next_node: AtomicU64::new(0),
            next_number: AtomicU64::new(0),
        })
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Asks the next node.
    fn send(&self, request: &NodeRequest) -> Result<NodeReply, NoReply> {
        let node = self.next_node.fetch_add(1, Ordering::Relaxed);
        let answered = self
            .addresses
            .send(usize::try_from(node).unwrap_or_default(), request);
        let mut ledger = lock(&self.ledger);
        match &answered {
            Ok(reply) if reply.is_success() => {
                if request.method != "GET" {
                    ledger.acknowledged += 1;
                }
            }
            Ok(reply) => {
                let reason = reply.json()["code"].as_str().unwrap_or("?").to_owned();
                let what = format!("{} {reason}", reply.status);
                *ledger.refused.entry(what).or_default() += 1;
            }
            Err(NoReply::NotSent) => *ledger.refused.entry("not sent".into()).or_default() += 1,
            Err(NoReply::Unknown(_)) => *ledger.refused.entry("no reply".into()).or_default() += 1,
        }
        answered
    }

    /// Writes the next value of a key.
    fn write(&self, key: &WriteKey, number: u64, request: &NodeRequest) {
        let is_acknowledged = match self.send(request) {
            Ok(reply) if reply.is_success() => true,
            Ok(NodeReply {
                status: 400..=499, ..
            })
            | Err(NoReply::NotSent) => return,
            Ok(_) | Err(NoReply::Unknown(_)) => false,
        };
        let mut ledger = lock(&self.ledger);
        let writes = ledger.keys.entry(key.clone()).or_default();
        if is_acknowledged {
            writes.acknowledged = Some(number);
        } else {
            writes.unknown.insert(number);
        }
    }

    /// A run that is there exactly once, however often it was asked for.
    pub(super) fn start_run(&self, tenant: &str, asks: bool) -> Option<AcceptedRun> {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        if number >= MAX_QUESTIONS {
            return None;
        }
        let input = if asks {
            question(number)
        } else {
            format!("tell {number}")
        };
        let body = json!({"input": input, "metadata": {"number": number.to_string()}});
        let mut request =
            NodeRequest::new("POST", format!("/v1/tenants/{tenant}/runs"), Some(body));
        request.idempotency_key = Some(format!("run-{number}"));
        loop {
            if let Ok(reply) = self.send(&request) {
                if reply.is_success() {
                    let id = reply.json()["runId"].as_str()?.to_owned();
                    let run = AcceptedRun {
                        tenant: tenant.to_owned(),
                        id,
                        number,
                        asks,
                    };
                    lock(&self.ledger).runs.push(run.clone());
                    return Some(run);
                }
                // A first try is under way, or its reply is lost: then the run is there, or it is not.
                if (400..500).contains(&reply.status) && reply.status != 429 {
                    return None;
                }
            }
            if self.is_over() {
                return None;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Waits for the end of a run, and agrees to what it asks.
    pub(super) fn follow_run(&self, run: &AcceptedRun) -> Option<Value> {
        let path = format!("/v1/tenants/{}/runs/{}", run.tenant, run.id);
        while !self.is_over() {
            if let Ok(reply) = self.send(&NodeRequest::get(&path))
                && reply.is_success()
            {
                let shown = reply.json();
                match shown["status"].as_str().unwrap_or_default() {
                    "completed" | "failed" | "cancelled" => return Some(shown),
                    "waiting_for_approval" => self.decide(run),
                    _ => {}
                }
            }
            std::thread::sleep(PAUSE);
        }
        None
    }

    fn decide(&self, run: &AcceptedRun) {
        let Ok(inbox) = self.send(&NodeRequest::get("/v1/approvals")) else {
            return;
        };
        let inbox = inbox.json();
        let asked = inbox["approvals"].as_array().into_iter().flatten();
        for approval in asked.filter(|approval| approval["runId"] == run.id.as_str()) {
            let Some(id) = approval["approvalId"].as_str() else {
                continue;
            };
            let choice = "once";
            let path = format!("/v1/approvals/{id}");
            let request = NodeRequest::new("POST", path, Some(json!({"choice": choice})));
            if self.send(&request).is_ok_and(|reply| reply.is_success()) {
                let decision = (id.to_owned(), choice.to_owned());
                lock(&self.ledger).decisions.push(decision);
            }
        }
    }

    fn schedule(&self, tenant: &str, number: u64) {
        let due = jiff::Timestamp::now() + DUE_AFTER;
        let id = format!("job-{number}");
        let job = json!({"id": id, "schedule": due.to_string(), "prompt": format!("tell of job {number}")});
        let path = format!("/v1/tenants/{tenant}/agent-cron");
        let request = NodeRequest::new("POST", path, Some(job));
        if self.send(&request).is_ok_and(|reply| reply.is_success()) {
            lock(&self.ledger).jobs.push((tenant.to_owned(), id));
        }
    }
}

type LoadClientWork = fn(&SharedLoad, &str, u64);

/// What is done for each tenant, with the pause after each.
const WORK: [(LoadClientWork, Duration); 6] = [
    (change_tenant, PAUSE),
    (write_file, Duration::from_millis(300)),
    (write_share_file, Duration::from_millis(300)),
    (set_variable, Duration::from_millis(700)),
    (tell, Duration::from_millis(500)),
    (do_thing, Duration::from_millis(500)),
];

fn change_tenant(load: &SharedLoad, tenant: &str, number: u64) {
    let body = json!({"displayName": number.to_string()});
    let request = NodeRequest::new("PATCH", format!("/v1/tenants/{tenant}"), Some(body));
    load.write(&WriteKey::DisplayName(tenant.into()), number, &request);
}

fn write_file(load: &SharedLoad, tenant: &str, number: u64) {
    let path = format!("/v1/tenants/{tenant}/files/content");
    let body = json!({"path": "state.txt", "content": number.to_string()});
    let request = NodeRequest::new("PUT", path, Some(body));
    load.write(&WriteKey::File(tenant.into()), number, &request);
}

fn write_share_file(load: &SharedLoad, tenant: &str, number: u64) {
    let path = format!("/v1/tenants/{tenant}/shares/team/files/content");
    let body = json!({"path": format!("{tenant}.txt"), "content": number.to_string()});
    let request = NodeRequest::new("PUT", path, Some(body));
    load.write(&WriteKey::ShareFile(tenant.into()), number, &request);
}

fn set_variable(load: &SharedLoad, tenant: &str, number: u64) {
    // Few enough to stay below every limit.
    let name = format!("V{}", number % 40);
    let body = json!({"value": format!("a value that is long enough, {number}")});
    let path = format!("/v1/tenants/{tenant}/env/{name}");
    let request = NodeRequest::new("PUT", path, Some(body));
    if load.send(&request).is_ok_and(|reply| reply.is_success()) {
        lock(&load.ledger).variables.push((tenant.to_owned(), name));
    }
}

fn tell(load: &SharedLoad, tenant: &str, _: u64) {
    if let Some(run) = load.start_run(tenant, false) {
        load.follow_run(&run);
    }
}

fn do_thing(load: &SharedLoad, tenant: &str, _: u64) {
    if let Some(run) = load.start_run(tenant, true) {
        load.follow_run(&run);
    }
}

/// Clients at work.
pub(super) struct RunningLoad {
    shared: Arc<SharedLoad>,
    clients: Vec<JoinHandle<()>>,
}

impl RunningLoad {
    /// All of it for these tenants, and jobs alone for one that sleeps otherwise.
    pub(super) fn start(shared: &Arc<SharedLoad>, tenants: &[String], sleeper: &str) -> Self {
        let mut clients = Vec::new();
        for tenant in tenants {
            for (work, pause) in WORK {
                clients.push(spawn_client(shared, tenant, pause, work));
            }
        }
        let job = |load: &SharedLoad, tenant: &str, number| load.schedule(tenant, number);
        for tenant in [sleeper, &tenants[0]] {
            clients.push(spawn_client(shared, tenant, DUE_AFTER, job));
        }
        Self {
            shared: Arc::clone(shared),
            clients,
        }
    }

    /// Ends all clients.
    pub(super) fn stop(self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        for client in self.clients {
            assert!(client.join().is_ok(), "a client of the load panicked");
        }
    }
}

fn spawn_client(
    shared: &Arc<SharedLoad>,
    tenant: &str,
    pause: Duration,
    work: LoadClientWork,
) -> JoinHandle<()> {
    let (shared, tenant) = (Arc::clone(shared), tenant.to_owned());
    std::thread::spawn(move || {
        let mut number = 0;
        while !shared.is_over() {
            let began = Instant::now();
            work(&shared, &tenant, number);
            number += 1;
            std::thread::sleep(pause.saturating_sub(began.elapsed()).max(PAUSE / 4));
        }
    })
}
