//! `hermes group …`: groups of tenants, which share files.

use crate::{
    cli::{GroupArgs, GroupCommand, GroupMembers, MemberCommand},
    context::Context,
    failure::Failure,
    hub::{Call, Column, HubClient},
};

const GROUPS: &[Column] = &[
    ("ID", "/id"),
    ("NAME", "/displayName"),
    ("KIND", "/kind"),
    ("QUOTA", "/quotaBytes"),
];
const MEMBERS: &[Column] = &[("TENANT", "/tenantId"), ("ACCESS", "/access")];

pub(super) fn run(context: &Context, args: GroupArgs) -> Result<(), Failure> {
    let hub = &HubClient::new(context, &args.hub)?;
    let output = hub.output();
    let of = |operation, group: &str| Call::to(operation).with("group_id", group);
    match args.command {
        GroupCommand::List(page) => {
            let answer = hub.ask_list(Call::to("list_groups"), "groups", &page.into())?;
            hub.show_list(
                &answer,
                "groups",
                GROUPS,
                "There are no groups. `hermes group create` makes one.",
            );
        }
        GroupCommand::Get { group } => {
            let answer = hub.ask(&of("get_group", &group))?;
            hub.show_members(&answer.value);
        }
        GroupCommand::Create { group, members } => {
            hub.ask(&describe(
                Call::to("create_group").with("id", group.as_str()),
                members,
            ))?;
            output.note(format!("Created `{group}`."));
        }
        GroupCommand::Update {
            group,
            members,
            version,
        } => {
            let call = describe(of("update_group", &group), members);
            hub.ask(&call.if_match(version.if_match))?;
            output.note(format!("Updated `{group}`."));
        }
        GroupCommand::Delete { group, force, sure } => {
            let all = if force {
                ", its memberships and its files"
            } else {
                ""
            };
            hub.confirm(sure.yes, &format!("Delete the group `{group}`{all}?"))?;
            hub.ask(&of("delete_group", &group).flag("force", force))?;
            output.note(format!("Deleted `{group}`."));
        }
        GroupCommand::Member { command } => member(hub, command)?,
    }
    Ok(())
}

fn describe(call: Call, members: GroupMembers) -> Call {
    call.maybe("displayName", members.name)
        .maybe("kind", members.kind)
        .maybe("quotaBytes", members.quota)
}

fn member(hub: &HubClient<'_>, command: MemberCommand) -> Result<(), Failure> {
    let of = |operation, group: &str, tenant: &str| {
        Call::to(operation)
            .with("group_id", group)
            .with("member_id", tenant)
    };
    match command {
        MemberCommand::List { group, page } => {
            let call = Call::to("list_members").with("group_id", group);
            let answer = hub.ask_list(call, "members", &page.into())?;
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
            hub.ask(&of("put_member", &group, &tenant).with("access", access.as_str()))?;
            hub.output()
                .note(format!("`{tenant}` may {access} the files of `{group}`."));
        }
        MemberCommand::Remove {
            group,
            tenant,
            sure,
        } => {
            hub.confirm(sure.yes, &format!("Remove `{tenant}` from `{group}`?"))?;
            hub.ask(&of("remove_member", &group, &tenant))?;
            hub.output()
                .note(format!("`{tenant}` is no longer a member of `{group}`."));
        }
    }
    Ok(())
}
