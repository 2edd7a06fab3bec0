//! `hermes tenant skill …`: what a tenant's agent has learned or was given.

use std::path::Path;

use serde_json::Value;

use super::tenant_call;
use crate::{
    cli::{TenantSkillCommand, TenantSkillInstallArgs},
    commands::hub::{
        client::{Column, HubClient, upload::list_files},
        skill_library::skill_name,
    },
    failure::Failure,
};

const COLUMNS: &[Column] = &[
    ("CATEGORY", "/category"),
    ("SKILL", "/name"),
    ("OFFERED", "/enabled"),
    ("PINNED", "/pinned"),
    ("FILES", "/fileCount"),
    ("DESCRIPTION", "/description"),
];
const FILES: &[Column] = &[
    ("SIZE", "/size"),
    ("MODIFIED", "/modifiedAt"),
    ("PATH", "/path"),
];

pub(super) fn run(hub: &HubClient<'_>, command: TenantSkillCommand) -> Result<(), Failure> {
    match command {
        TenantSkillCommand::List { tenant } => {
            let answer = hub.call(&tenant_call("list_tenant_skills", &tenant))?;
            hub.show_items(
                &flatten_skills(&answer.value),
                COLUMNS,
                "There are no skills.",
            );
        }
        TenantSkillCommand::Files(args) => {
            let call = tenant_call("list_tenant_skill_files", &args.tenant)
                .with("category", args.category)
                .with("skill", args.skill);
            let answer = hub.call(&call)?;
            hub.show_list(&answer, "files", FILES, "It has no files.");
        }
        TenantSkillCommand::Show { tenant, path } => {
            let answer =
                hub.call(&tenant_call("get_tenant_skill_file", &tenant).with("path", path))?;
            if !hub.output().is_json() {
                hub.output().raw(answer.text("/content"));
            }
        }
        TenantSkillCommand::Install(args) => install_skill(hub, args)?,
        TenantSkillCommand::Remove {
            tenant,
            skill,
            sure,
        } => {
            let question = format!("Remove the skill `{skill}` of `{tenant}`, for good?");
            hub.confirm(sure.yes, &question)?;
            hub.call(&tenant_call("remove_skill", &tenant).with("name", skill.clone()))?;
            hub.output().note(format!("Removed `{skill}`."));
        }
        TenantSkillCommand::Enable(args) => {
            set_skill_state(hub, &args.tenant, &args.skill, true, args.pinned)?;
        }
        TenantSkillCommand::Disable(args) => {
            set_skill_state(hub, &args.tenant, &args.skill, false, args.pinned)?;
        }
    }
    Ok(())
}

fn install_skill(hub: &HubClient<'_>, args: TenantSkillInstallArgs) -> Result<(), Failure> {
    let call = tenant_call("put_skill", &args.tenant).with_optional("category", args.category);
    let (name, call) = if args.library {
        (args.skill, call.with("library", true))
    } else {
        let directory = Path::new(&args.skill);
        let files = list_files(directory)?;
        (skill_name(directory)?, call.with("files", files))
    };
    hub.call(&call.with("name", name.clone()))?;
    hub.output()
        .note(format!("`{name}` is installed. The next run has it."));
    Ok(())
}

fn set_skill_state(
    hub: &HubClient<'_>,
    tenant: &str,
    skill: &str,
    enabled: bool,
    pinned: Option<bool>,
) -> Result<(), Failure> {
    let call = tenant_call("set_skill_state", tenant)
        .with("skill", skill)
        .with("enabled", enabled)
        .with_optional("pinned", pinned);
    hub.call(&call)?;
    let what = if enabled {
        "is offered"
    } else {
        "is no longer offered"
    };
    hub.output().note(format!("`{skill}` {what}."));
    Ok(())
}

/// All skills, each with its category.
fn flatten_skills(list: &Value) -> Vec<Value> {
    let categories = list["categories"].as_array().into_iter().flatten();
    categories
        .flat_map(|category| {
            let skills = category["skills"].as_array().cloned().unwrap_or_default();
            skills.into_iter().map(|mut skill| {
                skill["category"] = category["name"].clone();
                skill
            })
        })
        .collect()
}
