//! Whether everything that was acknowledged is there, once.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use super::{
    NODE_TIMEOUT, NodeCluster, NodeRequest,
    ledger::{AcceptedRun, FaultReport, WriteKey, WriteLedger},
    load::{DONE_FILE, SharedLoad},
};
use crate::{script::lock, wait_for, wait_until};

/// Fills the report. All nodes are well and the load has ended.
pub(super) fn check_everything(
    cluster: &NodeCluster,
    shared: &SharedLoad,
    tenants: &[String],
    sleeper: &str,
    report: &mut FaultReport,
) {
    let ledger = std::mem::take(&mut *lock(&shared.ledger));
    report.acknowledged = ledger.acknowledged;
    report.refused.clone_from(&ledger.refused);
    report.runs = ledger.runs.len();
    report.jobs = ledger.jobs.len();
    report.decisions = ledger.decisions.len();
    let mut check = FinalCheck {
        cluster,
        problems: Vec::new(),
    };
    check.finish_runs(&ledger);
    check.values(&ledger);
    check.variables(&ledger);
    let ended = check.runs(&ledger);
    check.events();
    check.decisions(&ledger);
    for tenant in tenants {
        check.things_done(tenant, &ledger, &ended);
    }
    check.jobs(&ledger);
    check.usage(tenants.iter().map(String::as_str).chain([sleeper]));
    check.audit();
    report.problems.extend(check.problems);
}

struct FinalCheck<'a> {
    cluster: &'a NodeCluster,
    problems: Vec<String>,
}

impl FinalCheck<'_> {
    fn add(&mut self, problem: impl Into<String>) {
        self.problems.push(problem.into());
    }

    fn get(&self, path: &str) -> Value {
        self.cluster
            .addresses
            .must_send(&NodeRequest::get(path))
            .json()
    }

    fn sql(&self, sql: &str) -> Vec<Vec<String>> {
        let rows = self.cluster.database.run_sql(sql);
        let rows = rows.lines().filter(|row| !row.is_empty());
        rows.map(|row| row.split('|').map(str::to_owned).collect())
            .collect()
    }

    /// Waits until nothing is under way; agrees to what is still asked.
    fn finish_runs(&mut self, ledger: &WriteLedger) {
        let unfinished = "SELECT id, tenant, status FROM runs WHERE ended_at IS NULL";
        let is_over = wait_until(NODE_TIMEOUT, || {
            for approval in self.get("/v1/approvals")["approvals"]
                .as_array()
                .into_iter()
                .flatten()
            {
                let id = approval["approvalId"].as_str().unwrap_or_default();
                let body = serde_json::json!({"choice": "once"});
                let decide = NodeRequest::new("POST", format!("/v1/approvals/{id}"), Some(body));
                // It may be decided already.
                let _ = self.cluster.addresses.send(0, &decide);
            }
            self.sql(unfinished).is_empty() && self.unfired(ledger).is_empty()
        });
        if !is_over {
            let left = self.sql(unfinished);
            if !left.is_empty() {
                self.add(format!("runs do not end: {left:?}"));
            }
        }
    }

    fn values(&mut self, ledger: &WriteLedger) {
        for (key, writes) in &ledger.keys {
            let (path, member) = match key {
                WriteKey::DisplayName(tenant) => (format!("/v1/tenants/{tenant}"), "displayName"),
                WriteKey::File(tenant) => (
                    format!("/v1/tenants/{tenant}/files/content?path=state.txt"),
                    "content",
                ),
                WriteKey::ShareFile(tenant) => (
                    format!("/v1/tenants/{tenant}/shares/team/files/content?path={tenant}.txt"),
                    "content",
                ),
            };
            for node in 0..self.cluster.addresses.count() {
                let reply = self.cluster.addresses.send(node, &NodeRequest::get(&path));
                let found = match &reply {
                    Ok(reply) if reply.is_success() => reply.json()[member]
                        .as_str()
                        .and_then(|text| text.trim().parse().ok()),
                    _ => None,
                };
                if !writes.may_be(found) {
                    self.add(format!(
                        "{key:?} is {reply:?} on node {node}, not {writes:?}"
                    ));
                }
            }
        }
    }

    fn variables(&mut self, ledger: &WriteLedger) {
        let mut by_tenant: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (tenant, name) in &ledger.variables {
            by_tenant.entry(tenant).or_default().insert(name);
        }
        for (tenant, names) in by_tenant {
            let listed = self.get(&format!("/v1/tenants/{tenant}/env"));
            let listed = listed["env"].as_array().cloned().unwrap_or_default();
            for name in names {
                if !listed.iter().any(|variable| variable["name"] == name) {
                    self.add(format!("the variable {name} of {tenant} is gone"));
                }
            }
        }
    }

    /// All runs by their id: number and status. Each that was accepted is there, none twice.
    fn runs(&mut self, ledger: &WriteLedger) -> HashMap<String, String> {
        let rows = self.sql("SELECT id, status, metadata::json ->> 'number' FROM runs");
        let mut ended = HashMap::new();
        let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
        for row in rows {
            let [id, status, number] = &row[..] else {
                self.add(format!("a row of runs is {row:?}"));
                continue;
            };
            ended.insert(id.clone(), status.clone());
            if !number.is_empty() {
                *numbers.entry(number.clone()).or_default() += 1;
            }
        }
        for (number, count) in numbers.iter().filter(|(_, count)| **count > 1) {
            self.add(format!("the run {number} is there {count} times"));
        }
        for run in &ledger.runs {
            let AcceptedRun {
                id, number, tenant, ..
            } = run;
            if !ended.contains_key(id) {
                self.add(format!("the run {id} ({number}) of {tenant} is gone"));
            }
        }
        let failed = "SELECT id, error FROM runs WHERE status = 'failed' AND job IS NULL AND error NOT LIKE '%interrupted%'";
        for row in self.sql(failed) {
            self.add(format!("a run failed: {row:?}"));
        }
        ended
    }

    /// Ids from 1 without a gap, and one end, which is the last.
    fn events(&mut self) {
        let finals = "'run.completed', 'run.failed', 'run.cancelled'";
        let wrong = self.sql(&format!(
            "SELECT runs.id, COUNT(event), MIN(run_events.id), MAX(run_events.id), runs.last_event,
                 COUNT(event) FILTER (WHERE event IN ({finals})),
                 MAX(run_events.id) FILTER (WHERE event IN ({finals}))
             FROM runs LEFT JOIN run_events ON run_events.run = runs.number
             GROUP BY runs.id, runs.last_event
             HAVING COUNT(event) = 0 OR MIN(run_events.id) <> 1 OR MAX(run_events.id) <> COUNT(event)
                 OR MAX(run_events.id) <> runs.last_event
                 OR COUNT(event) FILTER (WHERE event IN ({finals})) <> 1
                 OR MAX(run_events.id) FILTER (WHERE event IN ({finals})) <> MAX(run_events.id)"
        ));
        for row in wrong {
            self.add(format!(
                "events of a run (count, first, last, last told, ends, the end): {row:?}"
            ));
        }
        // A text that was told twice, or not whole, in the last attempt.
        let told = self.sql(
            "SELECT runs.id, runs.output FROM runs
             WHERE status = 'completed' AND request LIKE '%tell %' AND output <> 'Once upon a time, the end.'",
        );
        for row in told {
            self.add(format!("the output of a run is {row:?}"));
        }
    }

    fn decisions(&mut self, ledger: &WriteLedger) {
        for (approval, choice) in &ledger.decisions {
            let found = self.sql(&format!(
                "SELECT state, choice FROM approvals WHERE id = '{approval}'"
            ));
            if found != [vec!["decided".to_owned(), choice.clone()]] {
                self.add(format!(
                    "the approval {approval} is {found:?}, not {choice}"
                ));
            }
        }
        let mut seen = BTreeSet::new();
        for (approval, _) in &ledger.decisions {
            if !seen.insert(approval) {
                self.add(format!("the approval {approval} was decided twice"));
            }
        }
        let doubled = self.sql(
            "SELECT run, body::json ->> 'approvalId', COUNT(*) FROM run_events
             WHERE event = 'approval.responded' GROUP BY 1, 2 HAVING COUNT(*) > 1",
        );
        for row in doubled {
            self.add(format!("a decision was told twice: {row:?}"));
        }
    }

    /// What a completed run has done in its home is there, and nothing was done twice.
    fn things_done(&mut self, tenant: &str, ledger: &WriteLedger, ended: &HashMap<String, String>) {
        let path = format!("/v1/tenants/{tenant}/files/content?path={DONE_FILE}");
        // Without a thing that was done there is no file.
        let reply = wait_for(NODE_TIMEOUT, || {
            let reply = self
                .cluster
                .addresses
                .send(0, &NodeRequest::get(&path))
                .ok()?;
            (reply.is_success() || reply.status == 404).then_some(reply)
        });
        let Some(reply) = reply else {
            self.add(format!("{path} cannot be read"));
            return;
        };
        let done = reply.json();
        let done = done["content"].as_str().unwrap_or_default();
        let count = |number: u64| {
            let lines = done
                .lines()
                .filter(|line| line.trim().parse() == Ok(number));
            lines.count()
        };
        let of_tenant = ledger
            .runs
            .iter()
            .filter(|run| run.asks && run.tenant == tenant);
        let mut wrong = Vec::new();
        for run in of_tenant {
            let times = count(run.number);
            let is_completed = ended
                .get(&run.id)
                .is_some_and(|status| status == "completed");
            if times > 1 || is_completed && times == 0 {
                wrong.push(format!(
                    "{tenant}: the thing {} of {} was done {times} times, completed: {is_completed}",
                    run.number, run.id
                ));
            }
        }
        self.problems.extend(wrong);
    }

    /// Jobs that were acknowledged and have not fired.
    fn unfired(&self, ledger: &WriteLedger) -> Vec<String> {
        let rows = self.sql("SELECT tenant, job FROM fires WHERE run IS NOT NULL");
        let fired: BTreeSet<(String, String)> = rows
            .into_iter()
            .filter_map(|row| Some((row.first()?.clone(), row.get(1)?.clone())))
            .collect();
        let unfired = ledger.jobs.iter().filter(|job| !fired.contains(*job));
        unfired
            .map(|(tenant, job)| format!("{tenant}/{job}"))
            .collect()
    }

    fn jobs(&mut self, ledger: &WriteLedger) {
        let unfired = self.unfired(ledger);
        if !unfired.is_empty() {
            let skipped = self.sql("SELECT tenant, job, skipped FROM fires WHERE run IS NULL");
            self.add(format!(
                "jobs never fired: {unfired:?}; skipped: {skipped:?}"
            ));
        }
        let doubled = "SELECT tenant, job, COUNT(*) FROM fires WHERE run IS NOT NULL GROUP BY 1, 2 HAVING COUNT(*) > 1";
        for row in self.sql(doubled) {
            self.add(format!("a due time fired twice: {row:?}"));
        }
    }

    /// What runs used is counted once.
    fn usage<'t>(&mut self, tenants: impl Iterator<Item = &'t str>) {
        let usage = self.get("/v1/usage?by=tenant");
        let rows = usage["usage"].as_array().cloned().unwrap_or_default();
        for tenant in tenants {
            let counted = rows.iter().find(|row| row["key"] == tenant);
            let counted = counted.and_then(|row| row["runs"].as_u64()).unwrap_or(0);
            let ended = self.sql(&format!(
                "SELECT COUNT(*) FROM runs WHERE tenant = '{tenant}'"
            ));
            if ended != [vec![counted.to_string()]] {
                self.add(format!(
                    "{counted} runs of {tenant} were counted, not {ended:?}"
                ));
            }
        }
    }

    fn audit(&mut self) {
        let verified = self.get("/v1/audit/verify");
        let chains = verified["chains"].as_array().map_or(0, Vec::len);
        if verified["ok"] != true || chains < self.cluster.nodes.len() {
            self.add(format!("the audit chains: {verified}"));
        }
    }
}
