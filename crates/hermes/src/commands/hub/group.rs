//! `hermes group …`: groups of tenants, which share files.

use serde_json::Value;

use crate::{
    cli::{GroupArgs, GroupCommand, GroupMembers, GroupSkillCommand, MemberCommand},
    commands::hub::client::{Column, HubCall, HubClient},
    context::Context,
    failure::Failure,
    output::printable,
};

const GROUPS: &[Column] = &[
    ("ID", "/id"),
    ("NAME", "/displayName"),
    ("KIND", "/kind"),
    ("QUOTA", "/quotaBytes"),
];
const MEMBERS: &[Column] = &[("TENANT", "/tenantId"), ("ACCESS", "/access")];

pub(crate) fn run(context: &Context, args: GroupArgs) -> Result<(), Failure> {
    let hub = &HubClient::new(context, &args.hub)?;
    let output = hub.output();
    let of = |operation, group: &str| HubCall::new(operation).with("group_id", group);
    match args.command {
        GroupCommand::List(page) => {
            let answer = hub.call_list(HubCall::new("list_groups"), "groups", &page.into())?;
            hub.show_list(
                &answer,
                "groups",
                GROUPS,
                "There are no groups. `hermes group create` makes one.",
            );
        }
        GroupCommand::Get { group } => {
            let answer = hub.call(&of("get_group", &group))?;
            hub.show_members(&answer.value);
        }
        GroupCommand::Create { group, members } => {
            hub.call(&with_members(
                HubCall::new("create_group").with("id", group.as_str()),
                members,
            ))?;
            output.note(format!("Created `{group}`."));
        }
        GroupCommand::Update {
            group,
            members,
            version,
        } => {
            let call = with_members(of("update_group", &group), members);
            hub.call(&call.if_match(version.if_match))?;
            output.note(format!("Updated `{group}`."));
        }
        GroupCommand::Delete { group, force, sure } => {
            let all = if force {
                ", its memberships and its files"
            } else {
                ""
            };
            hub.confirm(sure.yes, &format!("Delete the group `{group}`{all}?"))?;
            hub.call(&of("delete_group", &group).with_flag("force", force))?;
            output.note(format!("Deleted `{group}`."));
        }
        GroupCommand::Member { command } => run_member(hub, command)?,
        GroupCommand::Skill { command } => run_skill(hub, command)?,
    }
    Ok(())
}

fn with_members(call: HubCall, members: GroupMembers) -> HubCall {
    call.with_optional("displayName", members.name)
        .with_optional("kind", members.kind)
        .with_optional("quotaBytes", members.quota)
}

fn run_skill(hub: &HubClient<'_>, command: GroupSkillCommand) -> Result<(), Failure> {
    let output = hub.output();
    match command {
        GroupSkillCommand::List { group } => {
            let answer = hub.call(&HubCall::new("get_group_skills").with("group_id", group))?;
            if output.is_json() {
                return Ok(());
            }
            let skills = answer.value["skills"].as_array();
            let skills: Vec<&str> = skills
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            if skills.is_empty() {
                output.note("It has no skills. `hermes group skill set` gives it some.");
            }
            for skill in skills {
                output.line(printable(skill));
            }
        }
        GroupSkillCommand::Set {
            group,
            skills,
            sure,
        } => {
            let question = format!("Set the skills of all members of `{group}`?");
            hub.confirm(sure.yes, &question)?;
            let call = HubCall::new("put_group_skills").with("group_id", group.as_str());
            hub.call(&call.with("skills", skills))?;
            output.note(format!("The members of `{group}` get these skills."));
        }
    }
    Ok(())
}

fn run_member(hub: &HubClient<'_>, command: MemberCommand) -> Result<(), Failure> {
    let of = |operation, group: &str, tenant: &str| {
        HubCall::new(operation)
            .with("group_id", group)
            .with("member_id", tenant)
    };
    match command {
        MemberCommand::List { group, page } => {
            let call = HubCall::new("list_members").with("group_id", group);
            let answer = hub.call_list(call, "members", &page.into())?;
            hub.show_list(
                &answer,
                "members",
                MEMBERS,
                "It has no members. `hermes group member add` adds one.",
            );
        }
        MemberCommand::Add {
            group,
            tenant,
            access,
        } => {
            hub.call(&of("put_member", &group, &tenant).with("access", access.as_str()))?;
            hub.output()
                .note(format!("`{tenant}` may {access} the files of `{group}`."));
        }
        MemberCommand::Remove {
            group,
            tenant,
            sure,
        } => {
            hub.confirm(sure.yes, &format!("Remove `{tenant}` from `{group}`?"))?;
            hub.call(&of("remove_member", &group, &tenant))?;
            hub.output()
                .note(format!("`{tenant}` is no longer a member of `{group}`."));
        }
    }
    Ok(())
}
