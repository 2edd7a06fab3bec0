//! A tenant with one of everything, and the arguments with which each operation works on it.

use hermes_testkit::eventually_some;
use serde_json::{Value, json};

use crate::{
    console::ConsoleBrowser,
    test_hub::{TIMEOUT, TestHub},
};

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
    /// Somebody's session in the console.
    session: String,
    /// The code of somebody who wants to use the tenant's bot.
    code: String,
    /// Something in the trash of the share.
    trashed: String,
    /// A webhook, and a delivery that was given up.
    webhook: String,
    delivery: String,
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
        std::fs::write(home.join("memories/MEMORY.md"), CANARY).unwrap();
        write_conversation(&home, "s1", CANARY).await;
        let shared = json!({"files": [{"path": "SKILL.md", "content": "---\nname: shared\ndescription: For all.\n---\n"}]});
        site.put("/v1/skills/shared", &shared).await;
        let servers =
            format!("mcp_servers:\n  demo:\n    command: {CANARY}\n    args: [{CANARY}]\n");
        std::fs::write(home.join("config.yaml"), servers).unwrap();
        let own = format!("/v1/tenants/{tenant}");
        let file = json!({"path": "notes/a.md", "content": CANARY});
        site.put(&format!("{own}/shares/{group}/files/content"), &file)
            .await
            .expect(201);
        let trashed = trash_file(site, &format!("{own}/shares/{group}")).await;
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
        let webhook = json!({"url": "https://webhooks.invalid/", "events": ["quota.near"]});
        let webhook = site.post("/v1/webhooks", &webhook).await.expect(201);
        let webhook = webhook["id"].as_str().unwrap().to_owned();
        Self {
            tenant: tenant.to_owned(),
            group,
            runtime_key: made["runtimeKey"].as_str().unwrap().to_owned(),
            done,
            waiting,
            approval,
            token: token["id"].as_str().unwrap().to_owned(),
            session: open_session(site).await,
            code: pair_two(&home),
            trashed,
            delivery: dead_delivery(site, &webhook).await,
            webhook,
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
            | "list_library_skills"
            | "healthz"
            | "readyz"
            | "openapi"
            | "version"
            | "whoami"
            | "list_nodes"
            | "get_overview"
            | "list_webhooks"
            | "create_sign_in_link"
            | "list_console_sessions"
            | "get_usage"
            | "get_tenant_impact_config"
            | "get_agent_policy"
            | "get_agent_specialization"
            | "list_approvals"
            | "list_all_runs"
            | "list_upcoming_crons"
            | "list_groups"
            | "list_tokens"
            | "list_audit"
            | "verify_audit"
            | "list_policy_revisions"
            | "list_impact_revisions"
            | "list_specialization_revisions" => {
                return json!({});
            }
            "end_console_session" => return json!({"session_id": self.session}),
            "create_tenant" => return json!({"displayName": "New"}),
            "patch_tenant_impact_config" => return json!({"patch": {"feature": {"seen": true}}}),
            "put_agent_policy" => return json!({"policy": {}}),
            "put_agent_specialization" => return json!({"content": "Be brief."}),
            "restore_policy" | "restore_impact" | "restore_specialization" => {
                return json!({"revision": 1});
            }
            "respond_approval" => return json!({"approval_id": self.approval, "choice": "once"}),
            "create_group" => return json!({"id": format!("{}-new", self.group)}),
            "get_group" | "list_members" | "get_group_skills" => {
                return json!({"group_id": self.group});
            }
            "put_group_skills" => {
                return json!({"group_id": self.group, "skills": []});
            }
            "update_group" => return json!({"group_id": self.group, "displayName": "New"}),
            "delete_group" => return json!({"group_id": self.group, "force": true}),
            "put_member" => {
                return json!({"group_id": self.group, "member_id": self.tenant, "access": "write"});
            }
            "remove_member" => return json!({"group_id": self.group, "member_id": self.tenant}),
            "drain_node" => return json!({"node_id": "n1"}),
            "watch_events" => return json!({"after": 0, "follow": false}),
            "create_webhook" => {
                return json!({"url": "https://webhooks.invalid/", "events": ["quota.near"]});
            }
            "get_webhook" | "update_webhook" | "delete_webhook" | "test_webhook"
            | "list_deliveries" => return json!({"webhook_id": self.webhook}),
            "redeliver" => {
                return json!({"webhook_id": self.webhook, "delivery_id": self.delivery});
            }
            "get_library_skill" | "delete_library_skill" => return json!({"name": "shared"}),
            "put_library_skill" => {
                return json!({"name": "shared", "files": [skill_head("shared")]});
            }
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
            | "get_soul"
            | "list_sessions"
            | "get_manifest"
            | "delete_tenant"
            | "list_tenant_skills"
            | "list_shares"
            | "list_tenant_crons"
            | "get_tenant_access"
            | "restore_tenant"
            | "rotate_runtime_key"
            | "list_env"
            | "list_files"
            | "find_files"
            | "get_tenant_agent"
            | "get_agent_card"
            | "start_tenant_agent"
            | "stop_tenant_agent"
            | "restart_tenant_agent"
            | "get_tenant_model"
            | "test_tenant_model"
            | "list_mcp_servers"
            | "list_platforms"
            | "list_pairing"
            | "get_limits"
            | "list_runs" => {
                json!({})
            }
            "get_platform" | "delete_platform" => json!({"platform": "telegram"}),
            "put_platform" => json!({"platform": "telegram", "allow_from": ["5"]}),
            "approve_pairing" => json!({"account": "telegram", "code": self.code}),
            "revoke_pairing" => json!({"account": "telegram", "user_id": "8"}),
            "patch_limits" => json!({"runs_per_day": 100}),
            "update_tenant" => json!({"displayName": "Other"}),
            "update_tenant_model" => json!({"model": "other"}),
            "get_mcp_server"
            | "delete_mcp_server"
            | "enable_mcp_server"
            | "disable_mcp_server"
            | "test_mcp_server"
            | "list_mcp_tools"
            | "get_mcp_server_log"
            | "log_in_to_mcp_server" => json!({"server": "demo"}),
            "put_mcp_server" => json!({"server": "new", "config": {"command": "true"}}),
            "update_mcp_server" => json!({"server": "demo", "patch": {"timeout": 5}}),
            "call_mcp_tool" => json!({"server": "demo", "tool": "now"}),
            "accept_mcp_tools" => json!({"server": "demo", "tools": ["now"]}),
            "grep_files" => json!({"pattern": "."}),
            "write_file" => json!({"path": "b.txt", "content": "x"}),
            "make_directory" => json!({"path": "made"}),
            "move_file" => json!({"from": "a.txt", "to": "c.txt"}),
            "upload_archive" => json!({"archive": packed("d.txt", b"x")}),
            "put_soul" => json!({"content": "Other"}),
            "get_memory" => json!({"kind": "memory"}),
            "put_memory" => json!({"kind": "memory", "content": "Other"}),
            "put_skill" => json!({"name": "writer", "files": [skill_head("writer")]}),
            "remove_skill" => json!({"name": "writer"}),
            "search_sessions" => json!({"query": CANARY}),
            "list_session_messages" | "delete_session" => json!({"session_id": "s1"}),
            "rename_session" => json!({"session_id": "s1", "title": "Other"}),
            "put_manifest" => json!({"manifest": {"name": "Other"}}),
            "set_tenant_access" => json!({"status": "blocked"}),
            "list_tenant_skill_files" => json!({"category": "content", "skill": "writer"}),
            "get_tenant_skill_file" => json!({"path": "content/writer/SKILL.md"}),
            "set_skill_state" => json!({"skill": "writer", "enabled": false}),
            "list_share_files" | "find_share_files" | "list_share_trash" => {
                json!({"group_id": group})
            }
            "read_share_file" | "stat_share_path" | "remove_share_path" => {
                json!({"group_id": group, "path": "notes/a.md"})
            }
            "grep_share" => json!({"group_id": group, "pattern": "."}),
            "write_share_file" => json!({"group_id": group, "path": "b.md", "content": "x"}),
            "download_share_file" => json!({"group_id": group, "path": "notes/a.md"}),
            "upload_share_file" => {
                json!({"group_id": group, "path": "b.bin", "content_base64": "AAE="})
            }
            "restore_share_path" => json!({"group_id": group, "id": self.trashed}),
            "make_share_dir" => json!({"group_id": group, "path": "made"}),
            "move_share_path" => json!({"group_id": group, "from": "notes/a.md", "to": "c.md"}),
            "get_tenant_cron" | "delete_tenant_cron" | "pause_tenant_cron"
            | "resume_tenant_cron" | "run_tenant_cron" => json!({"job_id": "job_1"}),
            "create_tenant_cron" => json!({"job": {"schedule": "every 1h", "prompt": "x"}}),
            "update_tenant_cron" => json!({"job_id": "job_1", "patch": {"prompt": "x"}}),
            "sync_context" => json!({"destination": self.tenant}),
            "set_env" => json!({"name": "API_KEY", "value": "other"}),
            "unset_env" => json!({"name": "API_KEY"}),
            "read_file" | "download_file" | "remove_file" => json!({"path": "a.txt"}),
            "create_run" => json!({"input": "say=1"}),
            "get_run" | "watch_run" => json!({"run_id": self.done}),
            "stop_run" => json!({"run_id": self.waiting}),
            "decide_run" => json!({"run_id": self.waiting, "choice": "once"}),
            "explain_policy" => json!({"tool": "terminal"}),
            _ => panic!("`{operation}` has no case here: say with which arguments it works"),
        }
    }
}

/// Two who wrote to the tenant's bot: one was let in, the other one has this code.
fn pair_two(home: &std::path::Path) -> String {
    use hermes_store::pairing::{CodeOffer, PairingStore};
    let store = PairingStore::new(&hermes_config::Home::at(home));
    let code = |user: &str| match store.request_code("telegram", user, CANARY).unwrap() {
        CodeOffer::Issued(code) => code.expose().clone(),
        other => panic!("{other:?}"),
    };
    store.approve("telegram", &code("8")).unwrap();
    code("7")
}

/// Puts a file into the trash of a share, and returns its id there.
async fn trash_file(site: &TestHub, share: &str) -> String {
    let file = json!({"path": "removed.md", "content": CANARY});
    let content = format!("{share}/files/content");
    site.put(&content, &file).await.expect(201);
    let removed = site.delete(&format!("{share}/files?path=removed.md")).await;
    assert_eq!(removed.status, 204, "{}", removed.text);
    let trash = site.get(&format!("{share}/trash")).await.expect(200);
    trash["entries"][0]["id"].as_str().unwrap().to_owned()
}

/// A delivery that was given up.
async fn dead_delivery(site: &TestHub, webhook: &str) -> String {
    use hermes_hub::{
        api_types::{
            Time,
            ids::{DeliveryId, WebhookId},
        },
        storage::{
            audit::NewAuditEntry,
            state::{AttemptResult, NextAttempt},
        },
    };
    let webhook = WebhookId::parse(webhook).unwrap();
    let id = DeliveryId::random().unwrap();
    let now = Time::now();
    // Due later, so that nobody else sends it.
    let later = now.after(std::time::Duration::from_hours(1));
    let entry = NewAuditEntry::by_hub("test_webhook");
    let state = site.hub.state();
    state
        .add_test_delivery(&webhook, &id, "{}".into(), later, entry)
        .await
        .unwrap();
    let given_up = AttemptResult {
        status: Some(500),
        error: None,
        next: NextAttempt::GivenUp,
    };
    state.finish_attempt(&id, given_up, now).await.unwrap();
    id.to_string()
}

/// The `SKILL.md` of a skill of that name.
pub(crate) fn skill_head(name: &str) -> Value {
    let text = format!("---\nname: {name}\ndescription: Works.\n---\nWork.\n");
    json!({"path": "SKILL.md", "content": text})
}

/// A `tar.zst` with one file, in base64.
pub(crate) fn packed(path: &str, content: &[u8]) -> String {
    use base64::{Engine, prelude::BASE64_STANDARD};
    BASE64_STANDARD.encode(zstd::encode_all(&*tar_of(path, content), 3).unwrap())
}

/// A `tar` with one file.
pub(crate) fn tar_of(path: &str, content: &[u8]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    builder.append_data(&mut header, path, content).unwrap();
    builder.into_inner().unwrap()
}

/// A conversation with one message, as an agent stores it.
pub(crate) async fn write_conversation(home: &std::path::Path, id: &str, text: &str) {
    use hermes_store::{Access, NewMessage, NewSession, Role, SessionId, Store};
    let home = hermes_config::Home::at(home);
    let store = Store::open(&home, Access::ReadWrite).await.unwrap();
    let session = SessionId::parse(id).unwrap();
    let new = NewSession::new(session.clone(), "api_server");
    store.create_session(&new).await.unwrap();
    store
        .append(&session, &NewMessage::new(Role::User, text))
        .await
        .unwrap();
    store.close().await;
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

/// Signs somebody in to the console.
async fn open_session(site: &TestHub) -> String {
    let token = json!({"name": "person", "role": "viewer"});
    let token = site.post("/v1/tokens", &token).await.expect(201);
    ConsoleBrowser::sign_in(site, token["token"].as_str().unwrap()).await;
    let open = site.get("/v1/console-sessions").await.expect(200);
    let open = open["sessions"].as_array().unwrap();
    let own = open
        .iter()
        .find(|session| session["tokenId"] == token["id"]);
    own.unwrap()["sessionId"].as_str().unwrap().to_owned()
}
