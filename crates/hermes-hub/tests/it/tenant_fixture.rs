//! A tenant with one of everything, and the arguments with which each operation works on it.

use hermes_testkit::eventually_some;
use serde_json::{Value, json};

use crate::test_hub::{TIMEOUT, TestHub};

/// Part of all content of the tenant; nobody else may ever read it.
pub(crate) const CANARY: &str = "canary";

pub(crate) struct TenantFixture {
    pub(crate) tenant: String,
    pub(crate) group: String,
    pub(crate) runtime_key: String,
    /// A run that has ended.
    done: String,
    /// A run that waits for a decision, and the decision it waits for.
    waiting: String,
    approval: String,
    /// A token that may be revoked.
    token: String,
}

impl TenantFixture {
    pub(crate) async fn new(site: &TestHub, tenant: &str) -> Self {
        let group = format!("{tenant}-team");
        site.post("/v1/groups", &json!({"id": group}))
            .await
            .expect(201);
        let made = site
            .tenant(
                json!({"id": tenant, "displayName": CANARY, "env": {"API_KEY": CANARY},
                "groups": [{"id": group, "access": "write"}]}),
            )
            .await;
        let home = site.home(tenant);
        let skill = home.join("skills/content/writer");
        std::fs::create_dir_all(&skill).unwrap();
        let text = format!("---\nname: writer\ndescription: {CANARY}\n---\n{CANARY}\n");
        std::fs::write(skill.join("SKILL.md"), text).unwrap();
        std::fs::write(home.join("workspace/a.txt"), CANARY).unwrap();
        std::fs::write(home.join("SOUL.md"), CANARY).unwrap();
        let own = format!("/v1/tenants/{tenant}");
        let file = json!({"path": "notes/a.md", "content": CANARY});
        site.put(&format!("{own}/shares/{group}/files/content"), &file)
            .await
            .expect(201);
        let job = json!({"id": "job_1", "schedule": "0 9 * * *", "prompt": CANARY});
        site.post(&format!("{own}/agent-cron"), &job)
            .await
            .expect(201);
        let run = |script: &str| {
            let request = json!({"input": script, "metadata": {"note": CANARY}});
            let path = format!("{own}/runs");
            async move {
                let run = site.post(&path, &request).await.expect(202);
                run["runId"].as_str().unwrap().to_owned()
            }
        };
        let done = run("say=1").await;
        let events = site.get(&format!("{own}/runs/{done}/events")).await;
        assert!(events.text.contains("run.completed"), "{}", events.text);
        let waiting = run("ask=reboot").await;
        let approval = pending_approval(site, &waiting).await;
        let token = json!({"name": "spare", "role": "viewer"});
        let token = site.post("/v1/tokens", &token).await.expect(201);
        Self {
            tenant: tenant.to_owned(),
            group,
            runtime_key: made["runtimeKey"].as_str().unwrap().to_owned(),
            done,
            waiting,
            approval,
            token: token["id"].as_str().unwrap().to_owned(),
        }
    }

    /// Arguments with which an operation works, by the names that tools have.
    ///
    /// # Panics
    ///
    /// If the operation is not known here, so that no operation is left out.
    pub(crate) fn arguments(&self, operation: &str) -> Value {
        let own = match operation {
            "list_tenants"
            | "healthz"
            | "readyz"
            | "openapi"
            | "version"
            | "whoami"
            | "get_tenant_impact_config"
            | "get_agent_policy"
            | "get_agent_specialization"
            | "list_approvals"
            | "list_groups"
            | "list_tokens"
            | "list_audit"
            | "verify_audit"
            | "list_policy_revisions"
            | "list_impact_revisions"
            | "list_specialization_revisions" => {
                return json!({});
            }
            "create_tenant" => return json!({"displayName": "New"}),
            "patch_tenant_impact_config" => return json!({"patch": {"feature": {"seen": true}}}),
            "put_agent_policy" => return json!({"policy": {}}),
            "put_agent_specialization" => return json!({"content": "Be brief."}),
            "restore_policy" | "restore_impact" | "restore_specialization" => {
                return json!({"revision": 1});
            }
            "respond_approval" => return json!({"approval_id": self.approval, "choice": "once"}),
            "create_group" => return json!({"id": format!("{}-new", self.group)}),
            "get_group" | "list_members" => return json!({"group_id": self.group}),
            "update_group" => return json!({"group_id": self.group, "displayName": "New"}),
            "delete_group" => return json!({"group_id": self.group, "force": true}),
            "put_member" => {
                return json!({"group_id": self.group, "member_id": self.tenant, "access": "write"});
            }
            "remove_member" => return json!({"group_id": self.group, "member_id": self.tenant}),
            "create_token" => return json!({"name": "new", "role": "viewer"}),
            "rotate_token" | "revoke_token" => return json!({"token_id": self.token}),
            _ => self.tenant_arguments(operation),
        };
        let mut arguments = json!({"tenant_id": self.tenant});
        arguments
            .as_object_mut()
            .unwrap()
            .extend(own.as_object().unwrap().clone());
        arguments
    }

    /// Arguments of operations on a tenant, besides its id.
    fn tenant_arguments(&self, operation: &str) -> Value {
        let group = &self.group;
        match operation {
            "get_tenant"
            | "delete_tenant"
            | "list_tenant_skills"
            | "list_shares"
            | "list_tenant_crons"
            | "get_tenant_access"
            | "restore_tenant"
            | "rotate_runtime_key"
            | "list_env"
            | "list_files"
            | "get_tenant_agent"
            | "start_tenant_agent"
            | "stop_tenant_agent"
            | "restart_tenant_agent"
            | "list_runs" => {
                json!({})
            }
            "update_tenant" => json!({"displayName": "Other"}),
            "set_tenant_access" => json!({"status": "blocked"}),
            "list_tenant_skill_files" => json!({"category": "content", "skill": "writer"}),
            "get_tenant_skill_file" => json!({"path": "content/writer/SKILL.md"}),
            "set_skill_state" => json!({"skill": "writer", "enabled": false}),
            "list_share_files" | "find_share_files" => json!({"group_id": group}),
            "read_share_file" | "stat_share_path" | "remove_share_path" => {
                json!({"group_id": group, "path": "notes/a.md"})
            }
            "grep_share" => json!({"group_id": group, "pattern": "."}),
            "write_share_file" => json!({"group_id": group, "path": "b.md", "content": "x"}),
            "make_share_dir" => json!({"group_id": group, "path": "made"}),
            "move_share_path" => json!({"group_id": group, "from": "notes/a.md", "to": "c.md"}),
            "get_tenant_cron" | "delete_tenant_cron" | "pause_tenant_cron"
            | "resume_tenant_cron" | "run_tenant_cron" => json!({"job_id": "job_1"}),
            "create_tenant_cron" => json!({"job": {"schedule": "every 1h", "prompt": "x"}}),
            "update_tenant_cron" => json!({"job_id": "job_1", "patch": {"prompt": "x"}}),
            "sync_context" => json!({"destination": self.tenant}),
            "set_env" => json!({"name": "API_KEY", "value": "other"}),
            "unset_env" => json!({"name": "API_KEY"}),
            "read_file" | "download_file" => json!({"path": "a.txt"}),
            "create_run" => json!({"input": "say=1"}),
            "get_run" | "watch_run" => json!({"run_id": self.done}),
            "stop_run" => json!({"run_id": self.waiting}),
            "decide_run" => json!({"run_id": self.waiting, "choice": "once"}),
            "explain_policy" => json!({"tool": "terminal"}),
            _ => panic!("`{operation}` has no case here: say with which arguments it works"),
        }
    }
}

async fn pending_approval(site: &TestHub, run: &str) -> String {
    let found = eventually_some(TIMEOUT, async || {
        let inbox = site.get("/v1/approvals?limit=500").await.expect(200);
        let mut approvals = inbox["approvals"].as_array().unwrap().iter();
        let found = approvals.find(|approval| approval["runId"] == run)?;
        Some(found["approvalId"].as_str().unwrap().to_owned())
    });
    found.await.expect("nothing is asked")
}
