//! The part of a document that the database has: it is one change.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Manifest, ManifestPart, ManifestRun, in_place, pointer, read_input};
use crate::{
    GroupId, Problem, ProblemCode, TenantId,
    api_types::{MemberAccess, PartOutcome, new_uid},
    hub::{CachedTenant, provisioning::wait_for_home},
    service::{
        call::{Call, etag},
        env::encrypt_variables,
        tenants,
    },
    storage::encryption::EncryptionContext,
};

/// References that whoever sends a document resolves.
const REFERENCES: [&str; 4] = ["${env:", "${file:", "${cmd:", "${keyring:"];

impl ManifestRun {
    /// Checks the members of the record.
    pub(super) async fn check_record(&self, manifest: &Manifest) -> Result<(), Problem> {
        if let Some(name) = &manifest.name {
            tenants::check_name(name).map_err(in_place("name", &["name"]))?;
        }
        if let Some(labels) = &manifest.labels {
            let mut wanted = match &self.tenant {
                Some(tenant) => tenant.labels.clone(),
                None => BTreeMap::new(),
            };
            merge(&mut wanted, labels);
            tenants::check_labels(&wanted).map_err(in_place("labels", &["labels"]))?;
        }
        let variables = manifest.env.iter().flatten();
        let set: BTreeMap<String, String> = variables
            .filter_map(|(name, value)| Some((name.clone(), value.clone()?)))
            .collect();
        for (name, value) in &set {
            if REFERENCES
                .iter()
                .any(|kind| value.trim_start().starts_with(kind))
            {
                return Err(Problem::new(
                    ProblemCode::Unprocessable,
                    format!(
                        "`env.{name}` is a reference, which the Hub does not resolve; `hermes tenant apply` does, or send \
                         the value"
                    ),
                )
                .with_detail(pointer(&["env", name]), "unresolved reference"));
            }
        }
        let uid = new_uid().map_err(|error| Problem::internal(&error))?;
        encrypt_variables(&self.call.hub, &uid, set).map_err(in_place("env", &["env"]))?;
        if let Some(flavor) = &manifest.flavor {
            let documents = self.call.hub.effective_documents();
            let checked = documents.check_flavor(flavor);
            checked.map_err(in_place("flavor", &["flavor"]))?;
        }
        for (group, access) in manifest.groups.iter().flatten() {
            let is_known = access
                .as_deref()
                .is_none_or(|access| MemberAccess::from_word(access).is_some());
            if !is_known {
                return Err(Problem::new(
                    ProblemCode::Unprocessable,
                    format!("`groups.{group}` must be `read`, `write` or null"),
                )
                .with_detail(pointer(&["groups", group]), "unknown access"));
            }
            let known = match GroupId::parse(group) {
                Ok(id) => self.call.hub.state().group(&id).await?,
                Err(_) => None,
            };
            if known.is_none() && access.is_some() {
                return Err(Problem::precondition(format!(
                    "there is no group `{}`; create it first",
                    group.chars().take(80).collect::<String>()
                ))
                .with_detail(pointer(&["groups", group]), "unknown group"));
            }
        }
        Ok(())
    }

    /// Creates the tenant, or changes its record.
    pub(super) async fn apply_record(
        &mut self,
        id: &TenantId,
        manifest: &Manifest,
    ) -> Result<(), Problem> {
        match self.tenant.clone() {
            Some(tenant) => self.update_record(&tenant, manifest).await,
            None => self.create_record(id, manifest).await,
        }
    }

    async fn create_record(&mut self, id: &TenantId, manifest: &Manifest) -> Result<(), Problem> {
        self.parts
            .push(ManifestPart::new("tenant", PartOutcome::Created));
        let mut request = Map::from_iter([("id".to_owned(), json!(id))]);
        let mut made = Vec::new();
        let mut add = |part: &'static str, member: &str, value: Value| {
            made.push(ManifestPart::compared(part, Value::Null, value.clone()));
            request.insert(member.to_owned(), value);
        };
        if let Some(name) = &manifest.name {
            add("name", "displayName", json!(name));
        }
        if let Some(flavor) = &manifest.flavor {
            add("flavor", "flavor", json!(flavor));
        }
        if let Some(labels) = &manifest.labels {
            add("labels", "labels", json!(without_nulls(labels)));
        }
        if let Some(groups) = &manifest.groups {
            add("groups", "groups", memberships(&without_nulls(groups)));
        }
        if let Some(storage) = &manifest.storage {
            add(
                "storage",
                "storage",
                storage_members(storage, &Map::new()).into(),
            );
        }
        if let Some(env) = &manifest.env {
            let env = without_nulls(env);
            let created = |name| ManifestPart::new(format!("env.{name}"), PartOutcome::Created);
            made.extend(env.keys().map(created));
            request.insert("env".to_owned(), json!(env));
        }
        self.parts.extend(made);
        if self.is_dry {
            return Ok(());
        }
        let created = tenants::create(self.call.clone(), read_input("tenant", request)?).await;
        if let Err(problem) = created {
            self.parts.clear();
            return Err(problem);
        }
        self.reload(id).await?;
        // The other parts are in its home.
        if let Some(tenant) = &self.tenant {
            wait_for_home(&self.call.hub, tenant).await;
            self.call.hub.leases().require(id).await?;
        }
        self.reload(id).await
    }

    async fn update_record(
        &mut self,
        tenant: &CachedTenant,
        manifest: &Manifest,
    ) -> Result<(), Problem> {
        let mut patch = Map::from_iter([("tenant_id".to_owned(), json!(tenant.id))]);
        let mut parts = Vec::new();
        for (part, member, before, after, sent) in wanted_members(tenant, manifest) {
            let compared = ManifestPart::compared(part, before, after);
            if compared.outcome != PartOutcome::Unchanged {
                patch.insert(member.to_owned(), sent);
            }
            parts.push(compared);
        }
        let env = self.changed_variables(tenant, manifest, &mut parts).await?;
        if !env.is_empty() {
            patch.insert("env".into(), env.into());
        }
        let is_same = patch.len() == 1;
        if !self.is_dry && !is_same {
            let call = Call {
                tenant: self.tenant.clone(),
                ..self.call.clone()
            };
            tenants::update(call, read_input("tenant", patch)?).await?;
            self.reload(&tenant.id.clone()).await?;
        } else {
            self.call.check_version(&etag(tenant.revision))?;
        }
        self.parts.extend(parts);
        Ok(())
    }

    /// The variables that are not yet what the document says.
    async fn changed_variables(
        &self,
        tenant: &CachedTenant,
        manifest: &Manifest,
        parts: &mut Vec<ManifestPart>,
    ) -> Result<Map<String, Value>, Problem> {
        let mut changed = Map::new();
        let Some(env) = &manifest.env else {
            return Ok(changed);
        };
        let hub = &self.call.hub;
        let mut present = BTreeMap::new();
        for (name, sealed) in hub.state().encrypted_env(&tenant.id).await? {
            let context = EncryptionContext::variable(&tenant.uid, &name);
            let value = hub.key().decrypt(&context, &sealed);
            present.insert(name, value.map_err(|error| Problem::internal(&error))?);
        }
        for (name, value) in env {
            let outcome = match (present.get(name), value) {
                (None, None) => PartOutcome::Unchanged,
                (Some(before), Some(value)) if before.expose() == value => PartOutcome::Unchanged,
                (None, Some(_)) => PartOutcome::Created,
                (Some(_), Some(_)) => PartOutcome::Changed,
                (Some(_), None) => PartOutcome::Removed,
            };
            if outcome != PartOutcome::Unchanged {
                changed.insert(name.clone(), json!(value));
            }
            // Values are never shown.
            parts.push(ManifestPart::new(format!("env.{name}"), outcome));
        }
        Ok(changed)
    }

    async fn reload(&mut self, id: &TenantId) -> Result<(), Problem> {
        let tenant = self.call.hub.tenant(id).await?;
        let tenant =
            tenant.ok_or_else(|| Problem::not_found(format!("there is no tenant `{id}`")))?;
        self.tenant = Some(tenant);
        Ok(())
    }
}

/// A part, the member of the record it is, what that is now and is to be, and what is sent to change it.
type WantedMember = (&'static str, &'static str, Value, Value, Value);

fn wanted_members(tenant: &CachedTenant, manifest: &Manifest) -> Vec<WantedMember> {
    let mut members = Vec::new();
    if let Some(name) = &manifest.name {
        let (before, after) = (json!(tenant.display_name), json!(name));
        members.push(("name", "displayName", before, after.clone(), after));
    }
    if let Some(flavor) = &manifest.flavor {
        let (before, after) = (json!(tenant.flavor), json!(flavor));
        members.push(("flavor", "flavor", before, after.clone(), after));
    }
    if let Some(labels) = &manifest.labels {
        let mut wanted = tenant.labels.clone();
        merge(&mut wanted, labels);
        let (before, after) = (json!(tenant.labels), json!(wanted));
        members.push(("labels", "labels", before, after, json!(labels)));
    }
    if let Some(groups) = &manifest.groups {
        let present = tenant.groups.iter();
        let present: BTreeMap<String, String> = present
            .map(|group| (group.id.to_string(), group.access.to_string()))
            .collect();
        let mut wanted = present.clone();
        merge(&mut wanted, groups);
        let after = memberships(&wanted);
        members.push((
            "groups",
            "groups",
            memberships(&present),
            after.clone(),
            after,
        ));
    }
    if let Some(storage) = &manifest.storage {
        let after: Value = storage_members(storage, &tenant.storage).into();
        members.push((
            "storage",
            "storage",
            json!(tenant.storage),
            after.clone(),
            after,
        ));
    }
    members
}

fn without_nulls(values: &BTreeMap<String, Option<String>>) -> BTreeMap<String, String> {
    let mut kept = BTreeMap::new();
    merge(&mut kept, values);
    kept
}

fn merge(values: &mut BTreeMap<String, String>, changes: &BTreeMap<String, Option<String>>) {
    for (name, value) in changes {
        match value {
            Some(value) => values.insert(name.clone(), value.clone()),
            None => values.remove(name),
        };
    }
}

fn memberships(groups: &BTreeMap<String, String>) -> Value {
    let groups = groups.iter();
    groups
        .map(|(id, access)| json!({"id": id, "access": access}))
        .collect()
}

fn storage_members(
    wanted: &super::ManifestStorage,
    present: &Map<String, Value>,
) -> Map<String, Value> {
    let mut members = present.clone();
    for (name, value) in [
        ("quotaBytes", wanted.quota_bytes),
        ("filesQuota", wanted.files_quota),
    ] {
        if let Some(value) = value {
            members.insert(name.to_owned(), value.into());
        }
    }
    members
}
