//! `hermes group …`: groups of tenants, which share files.

use crate::{
    cli::{GroupArgs, GroupCommand, GroupMembers, MemberCommand},
    commands::hub::client::{Column, HubCall, HubClient},
    context::Context,
    failure::Failure,
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
    }
    Ok(())
}

fn with_members(call: HubCall, members: GroupMembers) -> HubCall {
    call.with_optional("displayName", members.name)
        .with_optional("kind", members.kind)
        .with_optional("quotaBytes", members.quota)
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
