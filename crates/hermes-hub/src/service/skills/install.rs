//! Installing skills in a tenant's home, and removing them.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    FoundSkill, NO_CATEGORY, SkillSummary,
    package::{NewSkillFile, SkillPackage},
    read_skill_lists, scan_skills, skill_not_found, write_skill_lists,
};
use crate::{
    Problem, ProblemCode, TenantId,
    hub::HomeChange,
    service::{
        call::{Call, Reply},
        directory_problem, recorded_with, run_blocking,
        workspace::decode_base64,
    },
    storage::{
        files::{HomeDirectory, SharePath, problem_from_io},
        state::{FileChange, TenantRecord},
    },
};

const SKILLS: &str = "skills";

/// A skill to install.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct InstallSkill {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The skill's name: small letters, digits and hyphens.
    name: String,
    /// Its files, among them `SKILL.md`.
    files: Option<Vec<NewSkillFile>>,
    /// Its directory as a `tar` or `tar.zst` in base64, instead of `files`. Over REST, it can be the body itself.
    archive: Option<String>,
    /// Whether it is taken from the Hub's library.
    library: Option<bool>,
    /// The category it is filed under; where it is now, or none, if absent.
    category: Option<String>,
}

/// A skill of a tenant, by its name.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemoveSkill {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The skill's name.
    name: String,
}

pub(crate) async fn install(call: Call, input: InstallSkill) -> Result<Reply, Problem> {
    let package = read_package(
        &call,
        &input.name,
        input.files,
        input.archive.as_deref(),
        input.library == Some(true),
    )
    .await?;
    let record = call.tenant()?;
    let (is_new, summary) = install_package(&call, record, package, input.category).await?;
    Ok(Reply::json(&summary)?.status(if is_new { 201 } else { 200 }))
}

/// The skill that a request brings or names.
pub(crate) async fn read_package(
    call: &Call,
    name: &str,
    files: Option<Vec<NewSkillFile>>,
    archive: Option<&str>,
    is_from_library: bool,
) -> Result<SkillPackage, Problem> {
    match (files, archive, is_from_library) {
        (Some(files), None, false) => SkillPackage::from_files(name, files),
        (None, Some(archive), false) => {
            let (name, archive) = (name.to_owned(), decode_base64("archive", archive)?);
            run_blocking(move || SkillPackage::from_archive(&name, &archive)).await
        }
        (None, None, true) => {
            let Some((_, archive)) = call.hub.state().library_skill(name).await? else {
                return Err(Problem::new(
                    ProblemCode::Unprocessable,
                    format!(
                        "the Hub's library has no skill `{}`; put it there first",
                        name.chars().take(80).collect::<String>()
                    ),
                )
                .with_reason("not_in_library")
                .with_detail("library", "no such skill"));
            };
            let name = name.to_owned();
            run_blocking(move || SkillPackage::from_archive(&name, &archive)).await
        }
        _ => Err(Problem::invalid(
            "a skill is given by exactly one of `files`, `archive` and `library: true`",
        )
        .with_detail("files", "one of three")),
    }
}

/// Puts a skill in the place of the one of that name, or in a new place. Returns whether it is new.
pub(crate) async fn install_package(
    call: &Call,
    record: &TenantRecord,
    package: SkillPackage,
    category: Option<String>,
) -> Result<(bool, SkillSummary), Problem> {
    let change: HomeChange = call.hub.begin_home_change(record).await?;
    let name = package.name.clone();
    let present = find_by_name(call, record, &name).await?;
    let place = skill_place(&name, present.as_ref(), category)?;
    change.check_room(package.usage())?;
    let home = call.hub.home(record);
    let (directory, file_name) = (place.clone(), name.clone());
    let work = run_blocking(move || {
        let opened = HomeDirectory::open_or_create(home.path(), SKILLS).and_then(|skills| {
            match directory.as_deref() {
                Some(category) => skills.subdirectory(category),
                None => Ok(skills),
            }
        });
        let parent = opened.map_err(|error| directory_problem(&error.into(), SKILLS))?;
        let path = SharePath::parse(&file_name)?;
        parent
            .replace_tree(&file_name, &package.into_files())
            .map_err(|error| problem_from_io(&error, &path))
    });
    let intent = FileChange::HomeFiles {
        tenant: record.id.clone(),
        directory: match &place {
            Some(category) => format!("{SKILLS}/{category}"),
            None => SKILLS.to_owned(),
        },
    };
    recorded_with(call, intent, work, change.measure()).await?;
    drop(change);
    // Before the reply, so that a run started after it has the skill.
    call.hub.push_settings_now(&record.id).await;
    let installed = find_by_name(call, record, &name).await?;
    let installed = installed.ok_or_else(|| skill_not_found(&name))?;
    Ok((present.is_none(), installed.summary))
}

pub(crate) async fn find_by_name(
    call: &Call,
    record: &TenantRecord,
    name: &str,
) -> Result<Option<FoundSkill>, Problem> {
    let skills = scan_skills(&call.hub, record).await?;
    Ok(skills.into_iter().find(|skill| skill.summary.name == name))
}

/// The category that a skill is put in.
fn skill_place(
    name: &str,
    present: Option<&FoundSkill>,
    wanted: Option<String>,
) -> Result<Option<String>, Problem> {
    let wanted = wanted.filter(|category| category != NO_CATEGORY);
    if let Some(category) = &wanted {
        hermes_store::skills::check_name(category).map_err(|_| {
            Problem::invalid("a category has small letters, digits and hyphens")
                .with_detail("category", "form")
        })?;
    }
    let Some(present) = present else {
        return Ok(wanted);
    };
    let there = match present.directory.split_once('/') {
        None => None,
        Some((category, rest)) if rest == name => Some(category.to_owned()),
        Some(_) => return Err(elsewhere(name, &present.directory)),
    };
    let is_own = there.is_some() || present.directory == name;
    if !is_own || (wanted.is_some() && wanted != there) {
        return Err(elsewhere(name, &present.directory));
    }
    Ok(there)
}

fn elsewhere(name: &str, directory: &str) -> Problem {
    Problem::precondition(format!(
        "the tenant has a skill `{name}` in `skills/{directory}`; remove it first"
    ))
    .with_reason("other_place")
}

pub(crate) async fn remove(call: Call, input: RemoveSkill) -> Result<Reply, Problem> {
    let record = call.tenant()?;
    let change: HomeChange = call.hub.begin_home_change(record).await?;
    let present = find_by_name(&call, record, &input.name).await?;
    let present = present.ok_or_else(|| skill_not_found(&input.name))?;
    let home = call.hub.home(record);
    let (name, path) = (input.name, SharePath::parse(&present.directory)?);
    let work = run_blocking(move || {
        let root = HomeDirectory::open_home(home.path())
            .map_err(|error| directory_problem(&error.into(), SKILLS))?;
        let mut segments = vec![SKILLS];
        segments.extend(path.segments());
        root.remove_all(&segments)
            .map_err(|error| problem_from_io(&error.into(), &path))?;
        let (disabled, pinned) = read_skill_lists(&home);
        if disabled.contains(&name) || pinned.contains(&name) {
            write_skill_lists(&home, &name, true, Some(false))?;
        }
        Ok(())
    });
    let intent = FileChange::Home {
        tenant: record.id.clone(),
    };
    recorded_with(&call, intent, work, change.measure()).await?;
    drop(change);
    call.hub.push_settings_now(&record.id).await;
    Ok(Reply::empty())
}
