//! A document is checked before anything is changed: each part by the rules of the operation that makes it, given what
//! the parts before it will have made. What only doing it can show is left: a full disk, an agent that holds a file.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{
    Manifest, ManifestRun, ManifestSkill,
    home_parts::{WantedSkill, wanted_file},
    in_place,
    named_parts::{snake_members, without_default_token},
    pointer, read_input,
};
use crate::{
    Problem, ProblemCode,
    api_types::MemoryKind,
    service::{
        character::{TextFile, check_new_text},
        home_config::{own_variables, read_config},
        limits, mcp_servers, model, platforms,
        skills::install::{find_by_name, read_package},
    },
    tenants::settings::{effective_agent, effective_storage},
};

const DEFAULT_FLAVOR: &str = "standard";

impl ManifestRun {
    /// Checks all parts, and reads the skills.
    pub(super) async fn check(&self, manifest: &Manifest) -> Result<Vec<WantedSkill>, Problem> {
        self.check_record(manifest).await?;
        let has_config = manifest.model.is_some() || manifest.mcp_servers.is_some();
        let document = match &self.tenant {
            Some(_) if has_config => read_config(&self.part_call("config")).await?,
            _ => Value::Null,
        };
        let variables = self.variables_afterwards(manifest).await?;
        self.check_model(manifest, &document, &variables)?;
        self.check_servers(manifest, &document, &variables)?;
        self.check_texts(manifest).await?;
        let packages = self.check_skills(manifest).await?;
        check_files(manifest)?;
        check_platforms(manifest, &variables)?;
        self.check_jobs(manifest.cron.as_deref().unwrap_or_default())
            .await?;
        if let Some(limits) = &manifest.limits {
            check_input::<limits::PatchLimits>("limits", &["limits"], snake_members(limits))?;
        }
        self.check_room(manifest, &packages)?;
        Ok(packages)
    }

    /// The tenant's variables once those of the document are set.
    async fn variables_afterwards(&self, manifest: &Manifest) -> Result<BTreeSet<String>, Problem> {
        let is_needed = manifest.model.is_some()
            || manifest.mcp_servers.is_some()
            || manifest.platforms.is_some();
        let mut variables = match &self.tenant {
            Some(tenant) if is_needed => own_variables(&self.call, tenant).await?,
            _ => BTreeSet::new(),
        };
        for (name, value) in manifest.env.iter().flatten() {
            match value {
                Some(_) => variables.insert(name.clone()),
                None => variables.remove(name),
            };
        }
        Ok(variables)
    }

    fn check_model(
        &self,
        manifest: &Manifest,
        document: &Value,
        variables: &BTreeSet<String>,
    ) -> Result<(), Problem> {
        let Some(wanted) = &manifest.model else {
            return Ok(());
        };
        let place = ["model"];
        let input = check_input("model", &place, snake_members(wanted))?;
        let agent_model = self.agent_model(manifest);
        model::check_patch(
            &self.call.hub,
            input,
            agent_model.as_deref(),
            variables,
            document,
        )
        .map_err(in_place("model", &place))
    }

    /// The model of the tenant's settings, which wins over the one of its home.
    fn agent_model(&self, manifest: &Manifest) -> Option<String> {
        let documents = self.call.hub.effective_documents();
        if let Some(tenant) = &self.tenant {
            let mut record = crate::storage::state::TenantRecord::clone(tenant);
            if let Some(flavor) = &manifest.flavor {
                record.flavor.clone_from(flavor);
            }
            return effective_agent(&record, &documents).model;
        }
        let flavor = manifest.flavor.as_deref().unwrap_or(DEFAULT_FLAVOR);
        let sections = [
            documents.flavor_section(flavor, "agent"),
            documents.section("agent"),
        ];
        let mut models = sections.iter().filter_map(|section| section.get("model"));
        models.next()?.as_str().map(str::to_owned)
    }

    fn check_servers(
        &self,
        manifest: &Manifest,
        document: &Value,
        variables: &BTreeSet<String>,
    ) -> Result<(), Problem> {
        let present = document.get("mcp_servers").and_then(Value::as_object);
        let present = present.map(|servers| servers.keys().cloned());
        let mut names: BTreeSet<String> = present.into_iter().flatten().collect();
        for (name, wanted) in manifest.mcp_servers.iter().flatten() {
            let Some(config) = wanted else {
                names.remove(name);
                continue;
            };
            let checked = mcp_servers::check_put(&self.call, name, config, document, variables);
            let part = format!("mcpServers.{name}");
            checked.map_err(in_place(&part, &["mcpServers", name.as_str()]))?;
            names.insert(name.clone());
        }
        if manifest.mcp_servers.is_none() {
            return Ok(());
        }
        mcp_servers::check_server_count(names.len())
            .map_err(in_place("mcpServers", &["mcpServers"]))
    }

    async fn check_texts(&self, manifest: &Manifest) -> Result<(), Problem> {
        let memory = manifest.memory.as_ref();
        let notes = memory.and_then(|memory| memory.memory.as_deref());
        let user = memory.and_then(|memory| memory.user.as_deref());
        let texts: [(&str, &[&str], TextFile, Option<&str>); 3] = [
            ("soul", &["soul"], TextFile::Soul, manifest.soul.as_deref()),
            (
                "memory.memory",
                &["memory", "memory"],
                TextFile::Memory(MemoryKind::Memory),
                notes,
            ),
            (
                "memory.user",
                &["memory", "user"],
                TextFile::Memory(MemoryKind::User),
                user,
            ),
        ];
        for (part, path, file, content) in texts {
            let Some(content) = content else { continue };
            let call = self.part_call(part);
            let tenant = self.tenant.as_deref().map(|tenant| &**tenant);
            let checked = check_new_text(&call, tenant, file, content).await;
            checked.map_err(in_place(part, path))?;
        }
        Ok(())
    }

    async fn check_skills(&self, manifest: &Manifest) -> Result<Vec<WantedSkill>, Problem> {
        let mut wanted: Vec<WantedSkill> = Vec::new();
        for (index, skill) in manifest.skills.iter().flatten().enumerate() {
            let place = ["skills".to_owned(), index.to_string()];
            let part = format!("skills.{}", skill.name);
            if wanted.iter().any(|other| other.name == skill.name) {
                return Err(same_twice(&part, &place));
            }
            let checked = self.check_skill(skill, &part).await;
            wanted.push(checked.map_err(in_place(&part, &place))?);
        }
        Ok(wanted)
    }

    async fn check_skill(&self, skill: &ManifestSkill, part: &str) -> Result<WantedSkill, Problem> {
        let is_from_library = skill.library == Some(true);
        let is_named_only = skill.files.is_none() && skill.archive.is_none() && !is_from_library;
        let package = if is_named_only {
            let present = match &self.tenant {
                Some(tenant) => find_by_name(&self.call, tenant, &skill.name).await?,
                None => None,
            };
            if present.is_none() {
                return Err(Problem::new(
                    ProblemCode::Unprocessable,
                    format!(
                        "`{part}` is not there; give its `files`, an `archive` or `library: true` (and `path` for \
                         `hermes tenant apply`)"
                    ),
                ));
            }
            None
        } else {
            let files = skill.files.clone();
            let archive = skill.archive.as_deref();
            Some(read_package(&self.call, &skill.name, files, archive, is_from_library).await?)
        };
        Ok(WantedSkill {
            name: skill.name.clone(),
            package,
            category: skill.category.clone(),
        })
    }

    /// Refuses more than the tenant's disk space could ever hold.
    fn check_room(&self, manifest: &Manifest, packages: &[WantedSkill]) -> Result<(), Problem> {
        let files = manifest.files.iter().flatten();
        let in_files = files.map(|file| {
            let text = file.content.as_deref().unwrap_or_default();
            let encoded = file.content_base64.as_deref().unwrap_or_default();
            text.len() + encoded.len() / 4 * 3
        });
        let in_skills = packages.iter().filter_map(|skill| skill.package.as_ref());
        let in_skills = in_skills.flat_map(|package| package.files().values().map(Vec::len));
        let wanted: usize = in_files.chain(in_skills).sum();
        let own = manifest.storage.and_then(|storage| storage.quota_bytes);
        let documents = self.call.hub.effective_documents();
        let present = self.tenant.as_deref();
        let present = present.map(|tenant| effective_storage(tenant, &documents));
        // A linked home has no limit.
        let present = present.filter(|storage| !storage.linked);
        let present = present.map(|storage| storage.quota_bytes);
        match own.or(present) {
            Some(quota) if wanted as u64 > quota => Err(Problem::new(
                ProblemCode::OutOfSpace,
                format!(
                    "files and skills have {wanted} bytes, and the tenant may have {quota}; raise `storage.quotaBytes`"
                ),
            )
            .with_reason("quota")
            .with_detail(pointer(&["storage", "quotaBytes"]), "too small")),
            _ => Ok(()),
        }
    }
}

fn check_files(manifest: &Manifest) -> Result<(), Problem> {
    let mut paths = Vec::new();
    for (index, file) in manifest.files.iter().flatten().enumerate() {
        let place = ["files".to_owned(), index.to_string()];
        let part = format!("files.{}", file.path.chars().take(200).collect::<String>());
        let (path, _) = wanted_file(file).map_err(in_place(&part, &place))?;
        if paths.contains(&path) {
            return Err(same_twice(&part, &place));
        }
        paths.push(path);
    }
    Ok(())
}

fn check_platforms(manifest: &Manifest, variables: &BTreeSet<String>) -> Result<(), Problem> {
    for (name, members) in manifest.platforms.iter().flatten() {
        let (part, place) = (format!("platforms.{name}"), ["platforms", name.as_str()]);
        let mut input = match members {
            Some(members) => snake_members(&without_default_token(name, members.clone())),
            None => Map::new(),
        };
        input.insert("platform".into(), json!(name));
        let input: platforms::PutPlatform = check_input(&part, &place, input)?;
        if members.is_some() {
            platforms::check_put(&input, variables).map_err(in_place(&part, &place))?;
        }
    }
    Ok(())
}

/// Reads what an operation will be given.
fn check_input<T: DeserializeOwned>(
    part: &str,
    place: &[&str],
    mut members: Map<String, Value>,
) -> Result<T, Problem> {
    members.insert("tenant_id".into(), "checked".into());
    read_input(part, members).map_err(|mut problem| {
        for detail in &mut problem.details {
            detail.field = pointer(place);
        }
        problem
    })
}

fn same_twice(part: &str, place: &[String]) -> Problem {
    Problem::new(
        ProblemCode::Unprocessable,
        format!("`{part}` is there twice; name it once"),
    )
    .with_detail(pointer(place), "twice")
}
