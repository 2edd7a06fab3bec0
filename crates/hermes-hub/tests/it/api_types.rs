//! The JSON that clients rely on, member by member.

use std::fmt::Debug;

use hermes_hub::api_types::{
    AuditEntry, Group, GroupMember, Run, Share, StoredEvent, Tenant, TenantAccess, Token,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

const T: &str = "2026-11-15T02:01:02.467Z";

/// Parses and serializes an example: nothing may be lost, added or renamed.
fn round_trip<Shape: DeserializeOwned + Serialize + Debug>(example: &Value) {
    let shape: Shape = serde_json::from_value(example.clone()).unwrap();
    let written = serde_json::to_value(&shape).unwrap();
    assert_eq!(written, *example, "{shape:?}");
    let members = |value: &Value| -> Vec<String> {
        let members = value.as_object().unwrap();
        members.keys().cloned().collect()
    };
    assert_eq!(members(&written), members(example), "in another order");
}

#[test]
fn a_tenant_is_written_as_documented() {
    round_trip::<Tenant>(&json!({
        "id": "tenant_123", "displayName": "Acme", "status": "ready", "access": { "status": "active" },
        "flavor": "standard",
        "agent": { "model": "provider/model", "timezone": "UTC", "autoStart": true, "idleStopSeconds": 900,
            "maxConcurrentRuns": 4 },
        "storage": { "quotaBytes": 5_368_709_120_u64, "usedBytes": 1234, "filesQuota": 200_000, "linked": false },
        "browser": { "enabled": false, "mode": "none", "maxTabs": 4 },
        "groups": [{ "id": "division1", "access": "write" }], "labels": {},
        "keys": { "runtimeKey": { "present": true, "last4": "9f2c", "rotatedAt": T } },
        "conditions": [{ "type": "Sandboxed", "status": "True", "reason": "landlock", "message": "",
            "lastTransitionTime": T }],
        "generation": 4, "observedGeneration": 4, "createdAt": T, "updatedAt": T, "deletedAt": null,
    }));
    round_trip::<TenantAccess>(&json!({
        "status": "blocked", "message": "Paused", "reason": "invoice 88", "updatedAt": T, "updatedBy": "tok_7",
    }));
}

#[test]
fn a_run_and_its_events_are_written_as_documented() {
    let run = format!("run_{}", "0f".repeat(16));
    round_trip::<Run>(&json!({
        "runId": run, "tenantId": "tenant_123", "status": "completed", "trigger": "api", "attempt": 1,
        "createdAt": T, "updatedAt": T, "lastEventId": 41, "output": "Hello",
        "usage": { "inputTokens": 1, "outputTokens": 2, "totalTokens": 3, "cachedTokens": 0 }, "model": null, "error": null,
        "metadata": {},
    }));
    round_trip::<StoredEvent>(&json!({
        "id": 7, "event": "tool.started", "runId": run, "time": T, "tool": "terminal", "preview": "ls",
    }));
}

#[test]
fn groups_members_and_shares_are_written_as_documented() {
    round_trip::<Group>(&json!({
        "id": "division1", "displayName": "Division 1", "kind": "department", "quotaBytes": 0,
    }));
    round_trip::<GroupMember>(&json!({ "tenantId": "tenant_123", "access": "read" }));
    round_trip::<Share>(&json!({
        "groupId": "division1", "displayName": "Division 1", "kind": "department", "access": "write",
        "usedBytes": 0, "quotaBytes": 0,
    }));
}

#[test]
fn a_token_is_written_as_documented() {
    round_trip::<Token>(&json!({
        "id": "tok_7", "name": "ci", "role": "operator", "scopes": [], "tenants": ["tenant_123"], "cidrs": [],
        "last4": "Qx1z", "expiresAt": null, "lastUsedAt": T,
    }));
}

#[test]
fn an_audit_entry_is_written_as_documented() {
    round_trip::<AuditEntry>(&json!({
        "seq": 1042, "chain": "n1", "time": T, "actor": "tok_7", "via": "mcp", "action": "write_share_file",
        "tenant": "tenant_123", "target": "division1:notes/report.md", "argNames": ["content", "path"],
        "contentSha256": "", "size": 4, "decision": "allow", "status": 200, "durationMs": 3, "requestId": "",
        "prevHash": "", "hash": "",
    }));
}
